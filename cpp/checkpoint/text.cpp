#include "checkpoint/text.h"

#include <utility>

namespace sam_rlx {
namespace {

// Length of the UTF-8 sequence at the front of `text`; 0 if it is not well formed.
std::size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool surrogate = first == 0xED && second > 0x9F;
  const bool beyond = first == 0xF4 && second > 0x8F;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  constexpr std::size_t kMaxLength = 200;
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result;
  for (const char character : text.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte >= 0x20 && byte < 0x7F) {
      result += character;
    } else {
      result += "\\x";
      result += kDigits[byte >> 4];
      result += kDigits[byte & 0xF];
    }
  }
  return text.size() > kMaxLength ? result + "..." : result;
}

std::string quoted(std::string_view text) {
  std::string result(1, '"');
  return result.append(printable(text)).append(1, '"');
}

void ShortList::add(std::string line) {
  if (full()) {
    ++more_;
  } else {
    lines_.push_back(std::move(line));
  }
}

void ShortList::add_all(const ShortList& other) {
  for (const std::string& line : other.lines_) add(line);
  more_ += other.more_;
}

std::vector<std::string> ShortList::lines() const {
  std::vector<std::string> result = lines_;
  if (more_ > 0) result.push_back("... and " + std::to_string(more_) + " more");
  return result;
}

std::string dims_text(const std::vector<std::int64_t>& dims) {
  constexpr std::size_t kMaxAxes = 16;
  std::string text = "(";
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (axis > 0) text += ", ";
    if (axis == kMaxAxes) return text + "...)";
    text += std::to_string(dims[axis]);
  }
  return text + (dims.size() == 1 ? ",)" : ")");
}

std::string alternatives(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    text.append(i == 0 ? "" : i + 1 == names.size() ? " or " : ", ").append(names[i]);
  }
  return text;
}

}  // namespace sam_rlx
