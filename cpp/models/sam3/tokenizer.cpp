#include "models/sam3/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <queue>
#include <string>
#include <utility>

#include "core/error.h"

namespace sam_rlx::sam3 {
namespace {

struct CodeRange {
  char32_t first, last;
};
#include "models/sam3/unicode_ranges.inl"

// ---------------------------------------------------------------- characters

enum class Kind { kLetter, kNumber, kSpace, kOther, kNone };

template <std::size_t N>
bool contains(const CodeRange (&ranges)[N], char32_t code) {
  const auto* const after =
      std::upper_bound(std::begin(ranges), std::end(ranges), code,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == ' ' || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

Kind kind_of(char32_t code) {
  // COMBINING GREEK YPOGEGRAMMENI is no letter, but the other case of one: upstream's pattern,
  // which ignores case, takes it for neither.
  if (code == 0x345) return Kind::kNone;
  if (contains(kLetters, code)) return Kind::kLetter;
  if (contains(kNumbers, code)) return Kind::kNumber;
  return is_space(code) ? Kind::kSpace : Kind::kOther;
}

// A character and the byte that it begins at.
struct Character {
  char32_t code;
  std::size_t begin;
};

// The characters of a UTF-8 text, and behind them its end.
std::vector<Character> characters_of(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  std::vector<Character> result;
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t lead = byte(i);
    const std::size_t more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    bool valid = lead < 0x80 || (lead >= 0xC2 && lead < 0xF5);
    char32_t code = more == 0 ? lead : lead & (0x3FU >> more);
    for (std::size_t k = 1; k <= more; ++k) {
      valid = valid && (byte(i + k) & 0xC0U) == 0x80;
      code = code << 6U | (byte(i + k) & 0x3FU);
    }
    if (!valid) fail("text", "UTF-8", "byte " + std::to_string(lead) + " at " + std::to_string(i));
    result.push_back({code, i});
    i += more + 1;
  }
  result.push_back({0, text.size()});
  return result;
}

// ---------------------------------------------------------------- words

constexpr std::string_view kStart = "<start_of_text>", kEnd = "<end_of_text>";
constexpr std::string_view kWhole[] = {kStart, kEnd, "'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};

// Whether `word` begins at a character. LATIN SMALL LETTER LONG S is another case of s.
bool begins(std::string_view word, std::span<const Character> text) {
  if (word.size() > text.size()) return false;
  return std::equal(word.begin(), word.end(), text.begin(), [](char a, const Character& b) {
    return b.code == static_cast<unsigned char>(a) || (a == 's' && b.code == 0x17F);
  });
}

// Characters of the word that the text begins with, 0 for none: special tokens, English endings,
// runs of letters, single digits, runs of anything else but white space.
std::size_t word_length(std::span<const Character> text) {
  for (const std::string_view word : kWhole) {
    if (begins(word, text)) return word.size();
  }
  const Kind kind = kind_of(text.front().code);
  if (kind == Kind::kNumber) return 1;
  if (kind != Kind::kLetter && kind != Kind::kOther) return 0;
  const auto end = std::find_if(text.begin(), text.end(),
                                [&](const Character& c) { return kind_of(c.code) != kind; });
  return static_cast<std::size_t>(end - text.begin());
}

// A piece of a word, in a list: neighbours that were merged into it are skipped.
struct Piece {
  std::int32_t id;
  int previous, next;  // -1: none
};

}  // namespace

// ---------------------------------------------------------------- Tokenizer

Tokenizer::Tokenizer(std::string_view merges) {
  const auto number = [&](std::size_t i) {
    const auto low = static_cast<unsigned char>(merges[2 * i]);
    const auto high = static_cast<unsigned char>(merges[2 * i + 1]);
    return static_cast<std::int32_t>(low | high << 8);
  };
  constexpr std::size_t kMax = 0x10000 - 2 * kBytes - 2;
  if (merges.size() % 4 != 0 || merges.size() / 4 > kMax) {
    fail("merges", "pairs of 16-bit numbers, at most " + std::to_string(kMax),
         std::to_string(merges.size()) + " bytes");
  }
  num_merges_ = static_cast<std::int32_t>(merges.size() / 4);
  merges_.reserve(merges.size() / 4);
  for (std::size_t i = 0; i < merges.size() / 4; ++i) {
    const std::int32_t left = number(2 * i), right = number(2 * i + 1);
    if (std::max(left, right) >= 2 * kBytes + static_cast<std::int32_t>(i)) {
      fail("merges", "parts that come before merge " + std::to_string(i),
           std::to_string(left) + " and " + std::to_string(right));
    }
    merges_.push_back(static_cast<std::uint64_t>(left) << 32U |
                      static_cast<std::uint64_t>(right) << 16U | i);
  }
  std::sort(merges_.begin(), merges_.end());
  // Visible characters of Latin-1 come first, then the other bytes.
  std::int32_t visible = 0, other = 188;
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const bool shown = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    byte_ids_[byte] = shown ? visible++ : other++;
  }
}

std::int32_t Tokenizer::merged(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key =
      static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint64_t>(right) << 16U;
  const auto found = std::lower_bound(merges_.begin(), merges_.end(), key);
  if (found == merges_.end() || *found >> 16U != key >> 16U) return -1;
  return 2 * kBytes + static_cast<std::int32_t>(*found & 0xFFFFU);
}

// Merges the best pair of neighbours, the first of equal ones, until none is left. A merge has a
// higher id than its parts, so that no better pair can appear.
void Tokenizer::append_word(std::string_view word, std::vector<std::int32_t>& ids) const {
  std::vector<Piece> pieces;
  for (const char c : word) {
    const int position = static_cast<int>(pieces.size());
    pieces.push_back({byte_ids_[static_cast<unsigned char>(c)], position - 1, position + 1});
  }
  pieces.back().id += kBytes;  // the end of a word
  pieces.back().next = -1;

  using Candidate = std::pair<std::int32_t, int>;  // id of the merge, position of its left part
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto at = [&](int position) -> Piece& {
    return pieces[static_cast<std::size_t>(position)];
  };
  const auto merge_at = [&](int position) {
    const Piece& left = at(position);
    return left.id < 0 || left.next < 0 ? -1 : merged(left.id, at(left.next).id);
  };
  const auto consider = [&](int position) {
    const std::int32_t id = position < 0 ? -1 : merge_at(position);
    if (id >= 0) queue.emplace(id, position);
  };
  for (int position = 0; position < static_cast<int>(pieces.size()); ++position) consider(position);
  while (!queue.empty()) {
    const auto [id, position] = queue.top();
    queue.pop();
    if (merge_at(position) != id) continue;  // one of its parts was merged meanwhile
    Piece& left = at(position);
    Piece& right = at(left.next);
    left.id = id;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) at(left.next).previous = position;
    consider(left.previous);
    consider(position);
  }
  for (int position = 0; position >= 0; position = at(position).next)
    ids.push_back(at(position).id);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids;
  const std::vector<Character> characters = characters_of(text);
  const std::span<const Character> all(characters.data(), characters.size() - 1);
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t length = word_length(all.subspan(i));
    const std::size_t begin = characters[i].begin;
    const std::string_view word = text.substr(begin, characters[i + length].begin - begin);
    if (word == kStart) {
      ids.push_back(sot_token_id());
    } else if (word == kEnd) {
      ids.push_back(eot_token_id());
    } else if (length > 0) {
      append_word(word, ids);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return ids;
}

std::int64_t Tokenizer::operator()(std::string_view text, std::span<std::int64_t> ids) const {
  if (ids.empty()) fail("context_length", "at least 1", "0");
  const std::vector<std::int32_t> found = encode(text);
  const std::size_t room = ids.size();
  std::fill(ids.begin(), ids.end(), 0);
  ids[0] = sot_token_id();
  std::copy_n(found.begin(), std::min(found.size(), room - 1), ids.begin() + 1);
  ids[std::min(found.size() + 1, room - 1)] = eot_token_id();
  return static_cast<std::int64_t>(found.size()) + 2;
}

}  // namespace sam_rlx::sam3
