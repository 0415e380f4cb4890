#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/json.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;
struct ByteRange {
  std::int64_t begin;
  std::int64_t end;
  const std::string* name;
};

DType parse_dtype(const std::string& text, const std::string& where) {
  const std::optional<DType> dtype = safetensors_dtype(text);
  if (!dtype) fail<CheckpointError>(where, "dtype " + safetensors_dtypes(), printable(text));
  return *dtype;
}

// Bytes of the tensor; raises when the product does not fit.
std::int64_t tensor_bytes(const TensorEntry& entry, const std::string& where) {
  std::int64_t bytes = dtype_bytes(entry.dtype);
  const bool empty = std::find(entry.dims.begin(), entry.dims.end(), 0) != entry.dims.end();
  for (const std::int64_t size : entry.dims) {
    if (size < 0 || (size != 0 && bytes > std::numeric_limits<std::int64_t>::max() / size)) {
      fail<CheckpointError>(where, "a shape whose size fits 63 bits", dims_text(entry.dims));
    }
    if (size != 0) bytes *= size;
  }
  return empty ? 0 : bytes;
}

void set_row_major_strides(TensorEntry& entry) {
  entry.strides.resize(entry.dims.size());
  std::int64_t stride = 1;
  for (std::size_t axis = entry.dims.size(); axis-- > 0;) {
    entry.strides[axis] = stride;
    stride *= std::max<std::int64_t>(entry.dims[axis], 1);
  }
}

ByteRange parse_offsets(const Json& tensor, const std::string& where, std::int64_t data_size) {
  const Json::Array& offsets = tensor.at("data_offsets", where).array(where);
  if (offsets.size() != 2) {
    fail<CheckpointError>(where, "two data offsets", std::to_string(offsets.size()));
  }
  const ByteRange range{offsets[0].integer(where), offsets[1].integer(where), nullptr};
  if (range.begin < 0 || range.end < range.begin || range.end > data_size) {
    fail<CheckpointError>(where, "data offsets within " + std::to_string(data_size) + " bytes",
                          dims_text({range.begin, range.end}));
  }
  return range;
}

void check_cover(std::vector<ByteRange> ranges, std::int64_t data_size, const std::string& where) {
  std::sort(ranges.begin(), ranges.end(), [](const ByteRange& a, const ByteRange& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::int64_t covered = 0;
  for (const ByteRange& range : ranges) {
    if (range.begin != covered) {
      fail<CheckpointError>(where + ": " + printable(*range.name),
                            "data without holes and overlaps, from byte " + std::to_string(covered),
                            "data from byte " + std::to_string(range.begin));
    }
    covered = range.end;
  }
  if (covered != data_size) {
    fail<CheckpointError>(where, std::to_string(covered) + " bytes of tensor data",
                          std::to_string(data_size));
  }
}

std::pair<TensorEntry, ByteRange> parse_tensor(const std::string& name, const Json& value,
                                               const std::string& where,
                                               std::span<const std::byte> data) {
  const std::string location = where + ": " + printable(name);
  TensorEntry entry;
  entry.name = name;
  entry.dtype = parse_dtype(value.at("dtype", location).string(location), location);
  for (const Json& size : value.at("shape", location).array(location)) {
    entry.dims.push_back(size.integer(location));
  }
  const std::int64_t size = tensor_bytes(entry, location);
  const ByteRange range = parse_offsets(value, location, static_cast<std::int64_t>(data.size()));
  if (range.end - range.begin != size) {
    fail<CheckpointError>(location,
                          std::to_string(size) + " bytes for shape " + dims_text(entry.dims),
                          std::to_string(range.end - range.begin));
  }
  set_row_major_strides(entry);
  entry.data = data.data() + range.begin;
  return {std::move(entry), range};
}

std::string_view take_header(ByteReader& reader) {
  const auto length = reader.take<std::uint64_t>();
  if (length > kMaxHeader) {
    fail<CheckpointError>(reader.where(), "a header of at most 100000000 bytes",
                          std::to_string(length));
  }
  const std::string_view header = as_text(reader.take_bytes(length));
  if (header.empty() || header[0] != '{') {
    fail<CheckpointError>(reader.where(), "a safetensors header that begins with '{'",
                          quoted(header.substr(0, 8)));
  }
  return header;
}

}  // namespace

StateDict read_safetensors(std::span<const std::byte> bytes, const std::string& where) {
  ByteReader reader(bytes, where);
  const Json header = Json::parse(take_header(reader), where);
  const std::span<const std::byte> data = reader.take_bytes(reader.remaining());

  StateDict result;
  result.source = where;
  std::vector<ByteRange> ranges;
  for (const auto& [name, value] : header.object(where)) {
    if (name == "__metadata__") {
      if (value.is_null()) continue;  // MLX
      for (const auto& [key, text] : value.object(where + ": __metadata__")) {
        result.metadata[key] = text.string(where + ": __metadata__");
      }
      continue;
    }
    const auto [entry, range] = parse_tensor(name, value, where, data);
    ranges.push_back({range.begin, range.end, &name});
    result.add_or_skip(entry);
  }
  check_cover(std::move(ranges), static_cast<std::int64_t>(data.size()), where);
  return result;
}

}  // namespace sam_rlx
