#include "checkpoint/gguf.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/ggml_tensor.h"
#include "checkpoint/gguf_values.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

// Networks that are a variant of a family here, and an architecture of their own elsewhere.
struct VariantTag {
  std::string_view tag, family;
};
constexpr VariantTag kVariantTags[] = {{"mobile-sam", "sam"}, {"edgetam", "sam2"}};

constexpr std::uint64_t kMaxAxes = 4, kLongestName = 1024;

void take_dims(ByteReader& reader, TensorEntry& entry, const std::string& location) {
  const auto rank = reader.take<std::uint32_t>();
  if (rank > kMaxAxes) fail<CheckpointError>(location, "at most 4 axes", std::to_string(rank));
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    const auto size = reader.take<std::uint64_t>();
    if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail<CheckpointError>(location, "sizes that fit 63 bits", std::to_string(size));
    }
    entry.dims.insert(entry.dims.begin(), static_cast<std::int64_t>(size));  // innermost first
  }
}

struct Placed {
  TensorEntry entry;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

Placed take_tensor(ByteReader& reader) {
  Placed tensor;
  tensor.entry.name = take_gguf_text(reader, reader.where() + ": tensor name", kLongestName);
  const std::string location = reader.where() + ": " + printable(tensor.entry.name);
  take_dims(reader, tensor.entry, location);
  tensor.entry.dtype = ggml_dtype(reader.take<std::uint32_t>(), location);
  tensor.offset = reader.take<std::uint64_t>();
  tensor.size = static_cast<std::uint64_t>(lay_out_ggml(tensor.entry, location));
  return tensor;
}

std::uint64_t aligned(std::uint64_t location, std::uint64_t alignment) {
  return (location + alignment - 1) / alignment * alignment;
}

// Points the tensors into the data, and checks that they fill it: no holes, no overlaps.
void location_tensors(std::vector<Placed>& tensors, std::span<const std::byte> data,
                      std::uint64_t alignment, const std::string& where) {
  std::vector<Placed*> order;
  for (Placed& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) {
    return std::pair(a->offset, a->size) < std::pair(b->offset, b->size);
  });
  std::uint64_t end = 0;
  for (Placed* const tensor : order) {
    const std::string location = where + ": " + printable(tensor->entry.name);
    const std::uint64_t begin = aligned(end, alignment);
    if (tensor->offset != begin) {
      fail<CheckpointError>(location, "data from byte " + std::to_string(begin),
                            "data from byte " + std::to_string(tensor->offset));
    }
    if (begin > data.size() || tensor->size > data.size() - begin) {
      fail<CheckpointError>(
          location, std::to_string(tensor->size) + " bytes from byte " + std::to_string(begin),
          std::to_string(data.size()) + " bytes of tensor data");
    }
    tensor->entry.data = data.data() + begin;
    end = begin + tensor->size;
  }
  if (data.size() > aligned(end, alignment)) {
    fail<CheckpointError>(where, std::to_string(end) + " bytes of tensor data",
                          std::to_string(data.size()));
  }
}

void check_version(ByteReader& reader) {
  reader.take_bytes(4);  // "GGUF"
  const auto version = reader.take<std::uint32_t>();
  if (version == 2 || version == 3) return;
  const bool swapped = version != 0 && (version & 0xFFFF) == 0;
  fail<UnsupportedError>(reader.where(), "GGUF of version 2 or 3, little-endian",
                         swapped ? "a big-endian file" : "version " + std::to_string(version));
}

std::string architecture_of(const GgufMetadata& metadata, const GgufArchitectures& known,
                            const std::string& where) {
  GgufArchitectures names = known;
  for (const VariantTag& variant : kVariantTags) names.push_back(variant.tag);
  const std::string location = where + ": general.architecture", expected = alternatives(known);
  auto found = metadata.values.find("general.architecture");
  // The first files of sam3.cpp's forks have this key alone.
  if (found == metadata.values.end()) found = metadata.values.find("sam3.arch");
  if (found == metadata.values.end()) fail<CheckpointError>(location, expected, "none");
  if (std::find(names.begin(), names.end(), found->second) != names.end()) return found->second;
  fail<UnsupportedError>(location, expected, printable(found->second));
}

std::string family_of(const std::string& architecture) {
  for (const VariantTag& variant : kVariantTags) {
    if (architecture == variant.tag) return std::string(variant.family);
  }
  return architecture;
}

// What the rest of the library looks for has the same keys as in a safetensors file. Variants have
// the names of their family but for the encoder.
void copy_metadata(const GgufMetadata& source, const std::string& architecture, StateDict& out) {
  out.metadata = source.values;
  out.metadata["family"] = family_of(architecture);
  const auto naming = source.values.find(architecture + ".naming");
  if (naming != source.values.end())
    out.metadata[out.metadata["family"] + ".naming"] = naming->second;
  for (const char* const key : {"variant", "config", "preprocessor"}) {
    const auto found = source.values.find(architecture + "." + key);
    if (found != source.values.end()) out.metadata[key] = found->second;
  }
}

// GGUF packs the innermost axis, which is short in a convolution: these are matrices there, listed
// by the side of their kernels. A matrix (out, in * side * side) becomes (out, in, side, side).
void restore_kernel(TensorEntry& entry, std::int64_t side, const std::string& where) {
  const std::int64_t locations = side * side;
  if (entry.dims.size() != 2 || entry.dims[1] % locations != 0 ||
      entry.dims[1] % dtype_numbers(entry.dtype) != 0) {
    fail<CheckpointError>(where + ": " + printable(entry.name),
                          "a matrix of kernels of " + std::to_string(locations) + " numbers",
                          "shape " + dims_text(entry.dims));
  }
  const std::int64_t channels = entry.dims[1] / locations;
  entry.dims = {entry.dims[0], channels, side, side};
  entry.strides = {channels * locations, locations, side, 1};
}

void restore_convolutions(const GgufMetadata& metadata, const std::string& architecture,
                          std::vector<Placed>& tensors, const std::string& where) {
  constexpr std::int64_t kLargestSide = 16;
  for (std::int64_t side = 1; side <= kLargestSide; ++side) {
    const std::string text = std::to_string(side);
    const auto listed = metadata.texts.find(architecture + ".conv_" + text + "x" + text);
    if (listed == metadata.texts.end()) continue;
    std::vector<std::string> names = listed->second;
    std::sort(names.begin(), names.end());
    for (Placed& tensor : tensors) {
      TensorEntry& entry = tensor.entry;
      if (std::binary_search(names.begin(), names.end(), entry.name)) {
        restore_kernel(entry, side, where);
      }
    }
  }
}

// What stands before the list of tensors, where the reader is left.
struct Header {
  ByteReader reader;
  std::uint64_t tensor_count = 0;
  GgufMetadata metadata;
};

Header take_header(const GgufFile& file) {
  ByteReader reader(file.bytes, file.where);
  check_version(reader);
  const auto tensor_count = reader.take<std::uint64_t>();
  const auto key_count = reader.take<std::uint64_t>();
  GgufMetadata metadata = take_gguf_metadata(reader, key_count);
  return {reader, tensor_count, std::move(metadata)};
}

std::vector<Placed> take_tensors(Header& header, const GgufFile& file) {
  constexpr std::uint64_t kSmallestTensor = 8 + 4 + 4 + 8;
  ByteReader& reader = header.reader;
  if (header.tensor_count > reader.remaining() / kSmallestTensor) {
    fail<CheckpointError>(file.where, "tensors that fit the file",
                          std::to_string(header.tensor_count) + " tensors");
  }
  std::vector<Placed> tensors;
  for (std::uint64_t i = 0; i < header.tensor_count; ++i) tensors.push_back(take_tensor(reader));
  const auto alignment = static_cast<std::uint64_t>(header.metadata.alignment);
  // A file without tensors may end with its header.
  const std::size_t begin =
      std::min<std::uint64_t>(aligned(reader.position(), alignment), file.bytes.size());
  location_tensors(tensors, file.bytes.subspan(begin), alignment, file.where);
  return tensors;
}

std::int64_t whole_number(const GgufMetadata& metadata, const std::string& key, std::int64_t absent,
                          const std::string& where) {
  const auto found = metadata.values.find(key);
  if (found == metadata.values.end()) return absent;
  const std::string& text = found->second;
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    fail<CheckpointError>(where + ": " + key, "a whole number", printable(text));
  }
  return value;
}

// Checks that this is file `part` of those that a checkpoint is split into, and returns how many.
std::int64_t check_split(const GgufMetadata& metadata, std::int64_t part,
                         const std::string& where) {
  constexpr std::int64_t kMaxFiles = 1000;
  const std::int64_t count = whole_number(metadata, "split.count", 1, where);
  if (count > kMaxFiles) {
    fail<CheckpointError>(where + ": split.count", "at most 1000 files", std::to_string(count));
  }
  const std::int64_t found = whole_number(metadata, "split.no", 0, where);
  if (found != part) {
    fail<CheckpointError>(where + ": split.no",
                          std::to_string(part) + " of " + std::to_string(count) + " files",
                          std::to_string(found));
  }
  return count;
}

}  // namespace

StateDict read_gguf(const GgufFile& first, const OpenGgufPart& open_part,
                    const GgufArchitectures& known) {
  Header header = take_header(first);
  const GgufMetadata& metadata = header.metadata;
  const std::int64_t count = check_split(metadata, 0, first.where);
  const std::string architecture = architecture_of(metadata, known, first.where);
  StateDict result;
  result.source = first.where;
  copy_metadata(metadata, architecture, result);
  const auto add = [&](Header& part, const GgufFile& file) {
    std::vector<Placed> tensors = take_tensors(part, file);
    restore_convolutions(metadata, architecture, tensors, file.where);
    for (Placed& tensor : tensors) result.add(std::move(tensor.entry));
  };
  add(header, first);
  for (std::int64_t part = 1; part < count; ++part) {
    const GgufFile file = open_part(part, count);
    Header other = take_header(file);
    const std::int64_t others = check_split(other.metadata, part, file.where);
    if (others != count) {
      fail<CheckpointError>(file.where + ": split.count", std::to_string(count),
                            std::to_string(others));
    }
    add(other, file);
  }
  const auto tensors = static_cast<std::int64_t>(result.tensors().size());
  const std::int64_t expected = whole_number(metadata, "split.tensors.count", tensors, first.where);
  if (tensors != expected) {
    fail<CheckpointError>(first.where, std::to_string(expected) + " tensors in all files",
                          std::to_string(tensors));
  }
  return result;
}

}  // namespace sam_rlx
