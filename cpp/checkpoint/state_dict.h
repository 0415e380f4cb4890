#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/dtype.h"
#include "checkpoint/text.h"

namespace sam_rlx {

class MappedFile;
class Tensor;

// One tensor of a file, not yet read.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> dims;     // any rank
  std::vector<std::int64_t> strides;  // in elements; row-major for a packed dtype
  const std::byte* data = nullptr;    // first element, of any alignment
  bool negative = false;              // what is stored is minus the tensor
  std::vector<TensorEntry> parts;     // of a joined tensor, which has no data and no strides itself

  std::int64_t numel() const;  // readers have checked that it fits
  bool contiguous() const;
};

// Where in a file its tensors were found.
struct Origin {
  std::string container;          // "safetensors", "GGUF", "PyTorch archive", ...
  std::string key;                // of the dict that was read: "ema.module"; empty: the outermost
  std::vector<std::string> keys;  // of all dicts with tensors, the first 20
  std::string prefix;             // that was before every name and is taken off: "module."
};

// What a file tells about the bytes of some of its tensors.
struct Checksum {
  std::span<const std::byte> bytes;
  std::uint32_t crc32 = 0;
  std::string what;  // "storage 3"
};

// Names and tensors of a checkpoint, in the order of the file. It keeps the files mapped that the
// entries point into.
class StateDict {
 public:
  std::string source;  // for messages
  Origin origin;
  std::map<std::string, std::string> metadata;
  std::vector<std::shared_ptr<const MappedFile>> files;
  std::vector<Checksum> checksums;
  // Numbers that were computed: entries may point into them as into files.
  std::vector<std::shared_ptr<const Tensor>> owned;

  // Raises CheckpointError when the name is there already.
  void add(TensorEntry entry);
  // Notes what the file holds beside the tensors, and why it is left out.
  void skip(std::string_view name, std::string_view reason);
  // Complex numbers are skipped and reported: only derived tables have them.
  void add_or_skip(TensorEntry entry);
  // "name: reason" of what was skipped, the first kMaxSkipped of them.
  std::vector<std::string> skipped() const { return skipped_.lines(); }
  const TensorEntry* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  // Gives every entry another name. An empty name drops the entry. Raises CheckpointError when
  // two entries get the same name.
  void rename(const std::vector<std::string>& names);
  // Changes entries in their order, but not their names.
  void transform(const std::function<void(TensorEntry&)>& change) {
    for (TensorEntry& entry : tensors_) change(entry);
  }
  // Cuts a tensor along its first axis into equal parts with these names; one that was joined of so
  // many falls into them. Raises CheckpointError
  // when it is not there or cannot be cut so; parts of packed tensors are whole blocks.
  void split(std::string_view name, const std::vector<std::string>& names);
  // Gives a tensor other axes for the same numbers. Raises CheckpointError when it is not there, is
  // a view with gaps or has another number of elements.
  void reshape(std::string_view name, std::vector<std::int64_t> dims);
  // Makes one tensor of several, one behind the other along the first axis, for every join. Raises
  // CheckpointError when one is not there or their other axes differ.
  struct Join {
    std::vector<std::string> names;
    std::string name;
  };
  void join(const std::vector<Join>& joins);

  // Takes over the tensors, metadata and files of another part of the same checkpoint.
  void merge(StateDict other);

  // See MappedFile::release.
  void release(std::span<const std::byte> range) const noexcept;

 private:
  TensorEntry joined(const std::vector<std::string>& names, std::vector<bool>& used) const;

  static constexpr std::size_t kMaxSkipped = 1000;

  std::vector<TensorEntry> tensors_;
  // Ordered: names in a file cannot be chosen so that it is slow.
  std::map<std::string, std::size_t, std::less<>> index_;
  ShortList skipped_{kMaxSkipped};
};

// Compares the checksums, on so many threads. CheckpointError for bytes that are not those which
// were written. It reads all of them: not for who wants names alone.
void verify_checksums(const StateDict& state_dict, int num_threads);

// Writes the tensor as float32, row-major, into out[numel]. Smaller floats, bool and small integers
// widen exactly; float64 and large integers round to nearest. Packed formats are unpacked
// as ggml does it. File pages that were read
// are released on the way, so that the tensor is never in memory twice.
void copy_as_float(const StateDict& state_dict, const TensorEntry& entry, float* out);

// The numbers of a float32 tensor where they lie in a file, row-major; null if they do not.
const float* mapped_floats(const StateDict& state_dict, const TensorEntry& entry);

// The tensor as the file has it, row-major: its bytes, and a copy of them into out[stored_bytes].
// Raises CheckpointError for a joined tensor of several dtypes.
std::int64_t stored_bytes(const TensorEntry& entry);
void copy_stored(const StateDict& state_dict, const TensorEntry& entry, std::byte* out);

}  // namespace sam_rlx
