#include "checkpoint/state_dict.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

#include "checkpoint/byte_reader.h"
#include "checkpoint/crc32.h"
#include "checkpoint/mapped_file.h"
#include "core/cores.h"
#include "core/error.h"
#include "core/half.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

template <class T>
float widen(const std::byte* source) noexcept {
  T value;
  std::memcpy(&value, source, sizeof(T));
  return static_cast<float>(value);
}

float widen_half(const std::byte* source) noexcept {
  std::uint16_t bits;
  std::memcpy(&bits, source, sizeof bits);
  return half_to_float(bits);
}

float widen_bfloat16(const std::byte* source) noexcept {
  std::uint16_t bits;
  std::memcpy(&bits, source, sizeof bits);
  return bfloat16_to_float(bits);
}

template <float (*to_float)(std::uint8_t) noexcept>
float widen_float8(const std::byte* source) noexcept {
  return to_float(std::to_integer<std::uint8_t>(*source));
}

float widen_bool(const std::byte* source) noexcept { return *source == std::byte{0} ? 0.0F : 1.0F; }

// Copies `count` elements that are `step` bytes apart.
template <float (*convert)(const std::byte*) noexcept>
void copy_run(const std::byte* source, std::int64_t step, std::int64_t count, float* out) noexcept {
  for (std::int64_t i = 0; i < count; ++i) out[i] = convert(source + i * step);
}

void copy_run_f32(const std::byte* source, std::int64_t step, std::int64_t count,
                  float* out) noexcept {
  if (step == 4) {
    std::memcpy(out, source, static_cast<std::size_t>(count) * 4);
  } else {  // by bits: a signalling NaN stays as it is
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(out + i, source + i * step, 4);
  }
}

using CopyRun = void (*)(const std::byte*, std::int64_t, std::int64_t, float*) noexcept;

CopyRun run_copier(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return copy_run<widen<double>>;
    case DType::kF32:
      return copy_run_f32;
    case DType::kF16:
      return copy_run<widen_half>;
    case DType::kBF16:
      return copy_run<widen_bfloat16>;
    case DType::kF8_E4M3FNUZ:
      return copy_run<widen_float8<float8_e4m3fnuz_to_float>>;
    case DType::kF8_E5M2FNUZ:
      return copy_run<widen_float8<float8_e5m2fnuz_to_float>>;
    case DType::kF8_E8M0:
      return copy_run<widen_float8<float8_e8m0_to_float>>;
    case DType::kU64:
      return copy_run<widen<std::uint64_t>>;
    case DType::kU32:
      return copy_run<widen<std::uint32_t>>;
    case DType::kU16:
      return copy_run<widen<std::uint16_t>>;
    case DType::kI64:
      return copy_run<widen<std::int64_t>>;
    case DType::kI32:
      return copy_run<widen<std::int32_t>>;
    case DType::kI16:
      return copy_run<widen<std::int16_t>>;
    case DType::kI8:
      return copy_run<widen<std::int8_t>>;
    case DType::kU8:
      return copy_run<widen<std::uint8_t>>;
    case DType::kBool:
      return copy_run<widen_bool>;
    case DType::kF8_E4M3:
      return copy_run<widen_float8<float8_e4m3_to_float>>;
    case DType::kF8_E5M2:
      return copy_run<widen_float8<float8_e5m2_to_float>>;
    default:
      fail_internal(std::string("a tensor of dtype ") + dtype_name(dtype) + " reached the copy");
  }
}

void copy_contiguous(const StateDict& state_dict, const TensorEntry& entry, float* out) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;  // elements, whole blocks
  const std::optional<BlockFormat> format = block_format(entry.dtype);
  const CopyRun copy = format ? nullptr : run_copier(entry.dtype);
  const std::int64_t bytes = dtype_bytes(entry.dtype), numbers = dtype_numbers(entry.dtype);
  const std::int64_t numel = entry.numel();
  const auto copy_chunk = [&](std::int64_t chunk) {
    const std::int64_t begin = chunk * kChunk, count = std::min(kChunk, numel - begin);
    const std::byte* const source = entry.data + begin / numbers * bytes;
    if (format) {
      unpack_blocks(*format, source, count, out + begin);
    } else {
      copy(source, bytes, count, out + begin);
    }
    state_dict.release({source, static_cast<std::size_t>(count / numbers * bytes)});
  };
  const std::int64_t chunks = (numel + kChunk - 1) / kChunk;
  parallel_for(chunks == 1 ? 1 : available_cores(), chunks, 1,
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t chunk = begin; chunk < end; ++chunk) copy_chunk(chunk);
               });
}

// Calls run(position of the first element, index of the run) for the runs along the last axis.
template <class Run>
void for_each_run(const TensorEntry& entry, const Run& run) {
  const std::size_t outer_rank = entry.dims.size() - 1;
  const std::int64_t runs = entry.numel() / entry.dims.back();
  std::vector<std::int64_t> location(outer_rank, 0);
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < runs; ++i) {
    run(entry.data + offset * dtype_bytes(entry.dtype), i);
    for (std::size_t axis = outer_rank; axis-- > 0;) {
      offset += entry.strides[axis];
      if (++location[axis] < entry.dims[axis]) break;
      offset -= entry.strides[axis] * entry.dims[axis];
      location[axis] = 0;
    }
  }
}

void copy_strided(const TensorEntry& entry, float* out) {
  const CopyRun copy = run_copier(entry.dtype);
  const std::int64_t step = entry.strides.back() * dtype_bytes(entry.dtype);
  const std::int64_t length = entry.dims.back();
  for_each_run(entry, [&](const std::byte* source, std::int64_t i) {
    copy(source, step, length, out + i * length);
  });
}

void copy_stored_strided(const TensorEntry& entry, std::byte* out) {
  const std::int64_t bytes = dtype_bytes(entry.dtype), length = entry.dims.back();
  for_each_run(entry, [&](const std::byte* source, std::int64_t i) {
    std::byte* const row = out + i * length * bytes;
    for (std::int64_t j = 0; j < length; ++j) {
      std::memcpy(row + j * bytes, source + j * entry.strides.back() * bytes,
                  static_cast<std::size_t>(bytes));
    }
  });
}

// Numbers of one size, all negated: floats by their highest bit, integers modulo their size.
template <class Word>
void negate_words(std::byte* bytes, std::int64_t count, bool whole) {
  constexpr Word kSign = Word{1} << (8 * sizeof(Word) - 1);
  for (std::int64_t i = 0; i < count; ++i) {
    std::byte* const at = bytes + i * static_cast<std::int64_t>(sizeof(Word));
    Word word = 0;
    std::memcpy(&word, at, sizeof word);
    word = static_cast<Word>(whole ? Word{0} - word : word ^ kSign);
    std::memcpy(at, &word, sizeof word);
  }
}

void negate_stored(const TensorEntry& entry, std::byte* out) {
  const bool whole = dtype_kind(entry.dtype) == NumberKind::kInteger;
  switch (dtype_bytes(entry.dtype)) {
    case 1:
      return negate_words<std::uint8_t>(out, entry.numel(), whole);
    case 2:
      return negate_words<std::uint16_t>(out, entry.numel(), whole);
    case 4:
      return negate_words<std::uint32_t>(out, entry.numel(), whole);
    case 8:
      return negate_words<std::uint64_t>(out, entry.numel(), whole);
    default:
      fail_internal(std::string("a negated tensor of dtype ") + dtype_name(entry.dtype));
  }
}

// Lets go of the file's pages under a tensor.
void release_tensor(const StateDict& state_dict, const TensorEntry& entry) {
  std::int64_t last = 0;
  for (std::size_t axis = 0; axis < entry.dims.size(); ++axis) {
    last += (entry.dims[axis] - 1) * entry.strides[axis];
  }
  const std::int64_t bytes = last / dtype_numbers(entry.dtype) * dtype_bytes(entry.dtype);
  state_dict.release({entry.data, static_cast<std::size_t>(bytes + dtype_bytes(entry.dtype))});
}

}  // namespace

std::int64_t TensorEntry::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t size : dims) product *= size;
  return product;
}

bool TensorEntry::contiguous() const {
  std::int64_t expected = 1;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] != 1 && strides[axis] != expected) return false;
    expected *= dims[axis];
  }
  return true;
}

void StateDict::add(TensorEntry entry) {
  if (!index_.emplace(entry.name, tensors_.size()).second) {
    fail<CheckpointError>(source + ": " + printable(entry.name), "one tensor of this name", "two");
  }
  tensors_.push_back(std::move(entry));
}

void StateDict::skip(std::string_view name, std::string_view reason) {
  skipped_.add(skipped_.full() ? "" : printable(name).append(": ").append(reason));
}

void StateDict::add_or_skip(TensorEntry entry) {
  if (dtype_kind(entry.dtype) == NumberKind::kComplex) {
    skip(entry.name, "complex" + std::to_string(8 * dtype_bytes(entry.dtype)));
  } else {
    add(std::move(entry));
  }
}

const TensorEntry* StateDict::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

void StateDict::rename(const std::vector<std::string>& names) {
  std::vector<TensorEntry> entries = std::exchange(tensors_, {});
  index_.clear();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (names[i].empty()) continue;
    entries[i].name = names[i];
    add(std::move(entries[i]));
  }
}

void StateDict::split(std::string_view name, const std::vector<std::string>& names) {
  const TensorEntry* const whole = find(name);
  const auto count = static_cast<std::int64_t>(names.size());
  const std::string where = source + ": " + printable(name);
  const std::string expected = "a first axis of a multiple of " + std::to_string(count);
  if (whole == nullptr) fail<CheckpointError>(where, expected, "no such tensor");
  if (whole->dims.empty() || whole->dims[0] == 0 || whole->dims[0] % count != 0) {
    const std::string found = whole->dims.empty() ? "none" : std::to_string(whole->dims[0]);
    fail<CheckpointError>(where, expected, found);
  }
  TensorEntry part = *whole;
  part.dims[0] /= count;
  const bool falls_apart =
      part.parts.size() == names.size() &&
      std::all_of(part.parts.begin(), part.parts.end(),
                  [&](const TensorEntry& each) { return each.dims == part.dims; });
  if (!part.parts.empty() && !falls_apart) {
    fail<CheckpointError>(where, std::to_string(count) + " joined parts", "others");
  }
  const std::int64_t block = dtype_numbers(part.dtype);
  const std::int64_t numbers = falls_apart ? 0 : part.dims[0] * part.strides[0];
  if (numbers % block != 0) {
    fail<CheckpointError>(where, "parts of whole blocks of " + std::to_string(block),
                          "parts of " + std::to_string(numbers) + " numbers");
  }
  std::vector<std::string> kept;
  for (const TensorEntry& entry : tensors_) kept.push_back(entry.name == name ? "" : entry.name);
  std::vector<TensorEntry> joined_parts = part.parts;
  rename(kept);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!joined_parts.empty()) part = std::move(joined_parts[i]);
    part.name = names[i];
    add(part);
    part.data += numbers / block * dtype_bytes(part.dtype);
  }
}

void StateDict::reshape(std::string_view name, std::vector<std::int64_t> dims) {
  const auto found = index_.find(name);
  const std::string where = source + ": " + printable(name);
  if (found == index_.end()) fail<CheckpointError>(where, "a tensor", "none");
  TensorEntry& entry = tensors_[found->second];
  TensorEntry other = entry;
  other.dims = std::move(dims);
  if (!entry.parts.empty() || !entry.contiguous() || other.numel() != entry.numel()) {
    fail<CheckpointError>(where, "a whole tensor of shape " + dims_text(other.dims),
                          dims_text(entry.dims));
  }
  other.strides.assign(other.dims.size(), 1);
  for (std::size_t axis = other.dims.size(); axis-- > 1;) {
    other.strides[axis - 1] = other.strides[axis] * std::max<std::int64_t>(other.dims[axis], 1);
  }
  entry = std::move(other);
}

TensorEntry StateDict::joined(const std::vector<std::string>& names,
                              std::vector<bool>& used) const {
  TensorEntry whole;
  for (const std::string& name : names) {
    const TensorEntry* const part = find(name);
    const std::string where = source + ": " + printable(name);
    const auto index = static_cast<std::size_t>(part == nullptr ? 0 : part - tensors_.data());
    if (part == nullptr || used[index]) fail<CheckpointError>(where, "a tensor", "none");
    used[index] = true;
    if (part->dims.empty()) fail<CheckpointError>(where, "at least one axis", "none");
    if (whole.parts.empty()) {
      whole.dims = part->dims;
      whole.dtype = part->dtype;
    } else if (!std::equal(part->dims.begin() + 1, part->dims.end(), whole.dims.begin() + 1,
                           whole.dims.end())) {
      fail<CheckpointError>(where,
                            "the shape of " + printable(names[0]) + " but for the first axis",
                            dims_text(part->dims));
    } else {
      whole.dims[0] += part->dims[0];
    }
    whole.parts.push_back(*part);
  }
  return whole;
}

void StateDict::join(const std::vector<Join>& joins) {
  std::vector<bool> used(tensors_.size());
  std::vector<TensorEntry> wholes;
  for (const Join& each : joins) {
    wholes.push_back(joined(each.names, used));
    wholes.back().name = each.name;
  }
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < tensors_.size(); ++i) kept.push_back(used[i] ? "" : tensors_[i].name);
  rename(kept);
  for (TensorEntry& whole : wholes) add(std::move(whole));
}

void StateDict::merge(StateDict other) {
  for (TensorEntry& entry : other.tensors_) add(std::move(entry));
  metadata.merge(other.metadata);
  skipped_.add_all(other.skipped_);
  files.insert(files.end(), other.files.begin(), other.files.end());
  checksums.insert(checksums.end(), other.checksums.begin(), other.checksums.end());
  owned.insert(owned.end(), other.owned.begin(), other.owned.end());
}

void StateDict::release(std::span<const std::byte> range) const noexcept {
  for (const auto& file : files) {
    if (file->contains(range.data())) file->release(range);
  }
}

void verify_checksums(const StateDict& state_dict, int num_threads) {
  const auto count = static_cast<std::int64_t>(state_dict.checksums.size());
  std::vector<std::uint8_t> differs(state_dict.checksums.size(), 0);
  parallel_for(num_threads, count, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const Checksum& each = state_dict.checksums[i];
      differs[i] = crc32_of(each.bytes) != each.crc32 ? 1 : 0;
      state_dict.release(each.bytes);
    }
  });
  const auto first = std::find(differs.begin(), differs.end(), 1);
  if (first == differs.end()) return;
  const auto number = std::count(differs.begin(), differs.end(), 1);
  const auto at = static_cast<std::size_t>(first - differs.begin());
  fail<CheckpointError>(
      state_dict.source + ": " + state_dict.checksums[at].what, "the bytes that its CRC-32 is of",
      "others" +
          (number == 1 ? std::string() : ", and in " + std::to_string(number - 1) + " more") +
          ": the file is damaged, or was changed after it was written");
}

void copy_as_float(const StateDict& state_dict, const TensorEntry& entry, float* out) {
  if (!entry.parts.empty()) {
    for (const TensorEntry& part : entry.parts) {
      copy_as_float(state_dict, part, out);
      out += part.numel();
    }
    return;
  }
  const std::int64_t numel = entry.numel();
  if (numel == 0) return;
  if (entry.contiguous()) {
    copy_contiguous(state_dict, entry, out);
  } else {
    copy_strided(entry, out);
    release_tensor(state_dict, entry);
  }
  if (entry.negative) std::transform(out, out + numel, out, std::negate<>());
}

const float* mapped_floats(const StateDict& state_dict, const TensorEntry& entry) {
  const bool as_stored = entry.dtype == DType::kF32 && entry.parts.empty() && !entry.negative &&
                         entry.numel() > 0 && entry.contiguous();
  if (!as_stored || reinterpret_cast<std::uintptr_t>(entry.data) % alignof(float) != 0) {
    return nullptr;
  }
  const auto holds = [&](const auto& file) { return file->contains(entry.data); };
  if (std::none_of(state_dict.files.begin(), state_dict.files.end(), holds)) return nullptr;
  return reinterpret_cast<const float*>(entry.data);
}

std::int64_t stored_bytes(const TensorEntry& entry) {
  if (entry.parts.empty()) {
    return entry.numel() / dtype_numbers(entry.dtype) * dtype_bytes(entry.dtype);
  }
  std::int64_t bytes = 0;
  for (const TensorEntry& part : entry.parts) {
    if (part.dtype != entry.parts[0].dtype) {
      fail<CheckpointError>(printable(entry.name),
                            std::string("parts of dtype ") + dtype_name(entry.parts[0].dtype),
                            dtype_name(part.dtype));
    }
    bytes += stored_bytes(part);
  }
  return bytes;
}

void copy_stored(const StateDict& state_dict, const TensorEntry& entry, std::byte* out) {
  for (const TensorEntry& part : entry.parts) {
    copy_stored(state_dict, part, out);
    out += stored_bytes(part);
  }
  if (!entry.parts.empty() || entry.numel() == 0) return;
  if (entry.contiguous()) {
    std::memcpy(out, entry.data, static_cast<std::size_t>(stored_bytes(entry)));
  } else {
    copy_stored_strided(entry, out);
  }
  if (entry.negative) negate_stored(entry, out);
  release_tensor(state_dict, entry);
}

}  // namespace sam_rlx
