#include "checkpoint/gguf_values.h"

#include <bit>
#include <charconv>
#include <utility>

#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

// Types of values, by the numbers of the format.
enum GgufType : std::uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
  kTypes
};

constexpr std::uint64_t kSmallest[kTypes] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};  // bytes
constexpr std::uint64_t kLongestKey = 65535, kLongestText = std::uint64_t{1} << 26;
constexpr int kDeepest = 4;  // lists of lists

GgufType take_type(ByteReader& reader, const std::string& what) {
  const auto type = reader.take<std::uint32_t>();
  if (type >= kTypes) {
    fail<CheckpointError>(what, "a type of value from 0 to 12", std::to_string(type));
  }
  return static_cast<GgufType>(type);
}

template <class T>
std::string take_number(ByteReader& reader) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, reader.take<T>());
  return {text, end.ptr};
}

std::string take_bool(ByteReader& reader, const std::string& what) {
  const auto byte = reader.take<std::uint8_t>();
  if (byte > 1) fail<CheckpointError>(what, "0 or 1 as a truth value", std::to_string(byte));
  return byte == 1 ? "true" : "false";
}

// Any value but a list.
std::string take_value(ByteReader& reader, GgufType type, const std::string& what) {
  switch (type) {
    case kUint8:
      return take_number<std::uint8_t>(reader);
    case kInt8:
      return take_number<std::int8_t>(reader);
    case kUint16:
      return take_number<std::uint16_t>(reader);
    case kInt16:
      return take_number<std::int16_t>(reader);
    case kUint32:
      return take_number<std::uint32_t>(reader);
    case kInt32:
      return take_number<std::int32_t>(reader);
    case kFloat32:
      return take_number<float>(reader);
    case kBool:
      return take_bool(reader, what);
    case kString:
      return take_gguf_text(reader, what, kLongestText);
    case kUint64:
      return take_number<std::uint64_t>(reader);
    case kInt64:
      return take_number<std::int64_t>(reader);
    case kFloat64:
      return take_number<double>(reader);
    default:
      fail_internal("a list reached the reader of plain values");
  }
}

bool is_whole(GgufType type) { return type <= kInt32 || type == kUint64 || type == kInt64; }

// What is kept of a list.
struct ListValues {
  std::vector<std::string> texts;
  std::string numbers;  // JSON, empty unless they are few whole numbers
};

std::string take_whole_numbers(ByteReader& reader, GgufType type, std::uint64_t count,
                               const std::string& what) {
  std::string json = "[";
  for (std::uint64_t i = 0; i < count; ++i) {
    json += (i == 0 ? "" : ", ") + take_value(reader, type, what);
  }
  return json + "]";
}

// A list; its values are kept if `kept` is given.
void take_list(ByteReader& reader, const std::string& what, int depth, ListValues* kept) {
  constexpr std::uint64_t kMaxNumbers = 64;
  if (depth > kDeepest) fail<CheckpointError>(what, "at most 4 levels of lists", "more");
  const GgufType type = take_type(reader, what);
  const auto count = reader.take<std::uint64_t>();
  if (count > reader.remaining() / kSmallest[type]) {
    fail<CheckpointError>(what, "a list that fits the file", std::to_string(count) + " values");
  }
  if (kept != nullptr && is_whole(type) && count <= kMaxNumbers) {
    kept->numbers = take_whole_numbers(reader, type, count, what);
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == kArray) {
      take_list(reader, what, depth + 1, nullptr);
    } else if (type == kString && kept != nullptr) {
      kept->texts.push_back(take_value(reader, type, what));
    } else if (type == kString) {
      reader.take_bytes(reader.take<std::uint64_t>());
    } else {
      reader.take_bytes(kSmallest[type]);
    }
  }
}

std::int64_t take_alignment(ByteReader& reader, GgufType type, const std::string& what) {
  const std::string expected = "a power of two from 1 to 65536";
  if (type != kUint32) fail<CheckpointError>(what, expected, "another type of value");
  const auto alignment = reader.take<std::uint32_t>();
  if (!std::has_single_bit(alignment) || alignment > 65536) {
    fail<CheckpointError>(what, expected, std::to_string(alignment));
  }
  return alignment;
}

}  // namespace

std::string take_gguf_text(ByteReader& reader, const std::string& what, std::uint64_t longest) {
  const auto length = reader.take<std::uint64_t>();
  if (length > longest) {
    fail<CheckpointError>(what, "at most " + std::to_string(longest) + " bytes of text",
                          std::to_string(length));
  }
  const std::string_view text = as_text(reader.take_bytes(length));
  if (!is_utf8(text)) fail<CheckpointError>(what, "text in UTF-8", quoted(text.substr(0, 40)));
  return std::string(text);
}

GgufMetadata take_gguf_metadata(ByteReader& reader, std::uint64_t count) {
  constexpr std::uint64_t kSmallestPair = 8 + 4 + 1;
  if (count > reader.remaining() / kSmallestPair) {
    fail<CheckpointError>(reader.where(), "metadata that fits the file",
                          std::to_string(count) + " keys");
  }
  GgufMetadata result;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = take_gguf_text(reader, reader.where() + ": metadata key", kLongestKey);
    const std::string what = reader.where() + ": " + printable(key);
    const GgufType type = take_type(reader, what);
    bool added = true;
    if (type == kArray) {
      ListValues list;
      take_list(reader, what, 1, &list);
      added = list.numbers.empty() ? result.texts.emplace(key, std::move(list.texts)).second
                                   : result.values.emplace(key, std::move(list.numbers)).second;
    } else if (key == "general.alignment") {
      result.alignment = take_alignment(reader, type, what);
      added = result.values.emplace(key, std::to_string(result.alignment)).second;
    } else {
      added = result.values.emplace(key, take_value(reader, type, what)).second;
    }
    if (!added) fail<CheckpointError>(what, "one value of this key", "two");
  }
  return result;
}

}  // namespace sam_rlx
