#include "checkpoint/named_tensors.h"

#include <memory>
#include <utility>

#include "checkpoint/crc32.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

using Dims = std::vector<std::int64_t>;
using Arrays = std::map<std::string, NamedTensors::Array, std::less<>>;
using Metadata = std::map<std::string, std::string>;

constexpr const char* kChecksum = "crc32";  // in the metadata
constexpr std::size_t kAlignment = 8;       // bytes, of the data behind the header

// How an array lies in a file.
struct Layout {
  const char* dtype;
  Dims dims;
  std::span<const std::byte> bytes;
};

Layout layout_of(const Tensor& tensor) {
  Dims dims;
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) dims.push_back(tensor.shape()[axis]);
  return {"F32", std::move(dims),
          std::as_bytes(std::span(tensor.data(), static_cast<std::size_t>(tensor.numel())))};
}
Layout layout_of(const NamedTensors::Integers& values) {
  return {"I64", {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
}
Layout layout_of(const NamedTensors::Doubles& values) {
  return {"F64", {static_cast<std::int64_t>(values.size())}, std::as_bytes(std::span(values))};
}
Layout layout_of(const NamedTensors::Array& array) {
  return std::visit([](const auto& each) { return layout_of(each); }, array);
}

// A number for all names, texts and values but for the checksum itself.
std::string checksum_of(const Metadata& metadata, const Arrays& arrays) {
  std::string parts;
  for (const auto& [key, text] : metadata) {
    if (key != kChecksum) parts += key + '\0' + text + '\0';
  }
  for (const auto& [name, array] : arrays) {
    parts += name + '\0' + std::to_string(crc32_of(layout_of(array).bytes)) + '\0';
  }
  return std::to_string(crc32_of(std::as_bytes(std::span(parts))));
}

// The JSON of one array, whose bytes begin at `begin`.
std::string header_of(const std::string& name, const Layout& layout, std::size_t begin) {
  std::string shape;
  for (const std::int64_t size : layout.dims) {
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  }
  return ',' + json_string(name) + R"(:{"dtype":")" + layout.dtype + R"(","shape":[)" + shape +
         R"(],"data_offsets":[)" + std::to_string(begin) + ',' +
         std::to_string(begin + layout.bytes.size()) + "]}";
}

NamedTensors::Array array_of(const StateDict& file, const TensorEntry& entry) {
  const std::string where = file.source + ": " + printable(entry.name);
  const auto count = static_cast<std::size_t>(entry.numel());
  const auto copied = [&](auto values) {
    if (entry.dims.size() != 1) fail<CheckpointError>(where, "1 axis", dims_text(entry.dims));
    copy_stored(file, entry, std::as_writable_bytes(std::span(values)).data());
    return values;
  };
  switch (entry.dtype) {
    case DType::kI64:
      return copied(NamedTensors::Integers(count));
    case DType::kF64:
      return copied(NamedTensors::Doubles(count));
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
    default:
      fail<CheckpointError>(where, "dtype F32, F16, BF16, F64 or I64", dtype_name(entry.dtype));
  }
  if (entry.dims.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
    fail<CheckpointError>(where, "at most 5 axes", dims_text(entry.dims));
  }
  Shape shape;
  for (const std::int64_t size : entry.dims) shape.push_back(size);
  Tensor tensor(shape);
  if (count > 0) copy_as_float(file, entry, tensor.data());
  return tensor;
}

}  // namespace

void NamedTensors::save(const Write& write) const {
  std::string header = R"({"__metadata__":{)";
  for (const auto& [key, text] : metadata) {
    if (key != kChecksum) header += json_string(key) + ':' + json_string(text) + ',';
  }
  header += json_string(kChecksum) + ':' + json_string(checksum_of(metadata, arrays_)) + '}';
  std::vector<std::span<const std::byte>> data;
  std::size_t end = 0;
  for (const bool wide : {true, false}) {  // numbers of 8 bytes first: each array is aligned
    for (const auto& [name, array] : arrays_) {
      if (std::holds_alternative<Tensor>(array) == wide) continue;
      const Layout layout = layout_of(array);
      header += header_of(name, layout, end);
      end += layout.bytes.size();
      data.push_back(layout.bytes);
    }
  }
  header += '}';
  header.append((kAlignment - header.size() % kAlignment) % kAlignment, ' ');
  const std::uint64_t length = header.size();
  write(std::as_bytes(std::span(&length, 1)));
  write(std::as_bytes(std::span(header)));
  for (const std::span<const std::byte> bytes : data) write(bytes);
}

NamedTensors NamedTensors::read(const std::filesystem::path& path) {
  const auto mapped = std::make_shared<const MappedFile>(path);
  StateDict file = read_safetensors(mapped->bytes(), utf8_of(path));
  file.files.push_back(mapped);
  NamedTensors result;
  result.metadata = file.metadata;
  for (const TensorEntry& entry : file.tensors()) result.set(entry.name, array_of(file, entry));
  // A file that another program wrote may have none.
  const auto stated = file.metadata.find(kChecksum);
  if (stated != file.metadata.end()) {
    const std::string found = checksum_of(result.metadata, result.arrays_);
    if (found != stated->second) {
      fail<CheckpointError>(file.source, "the checksum " + printable(stated->second),
                            found + ": the file is damaged");
    }
  }
  return result;
}

}  // namespace sam_rlx
