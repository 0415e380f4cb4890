#include "loading/tensor_map.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/byte_reader.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/text.h"
#include "core/error.h"

namespace sam_rlx {
namespace {

bool is_packed_matrix(const TensorEntry& entry) {
  return block_format(entry.dtype).has_value() && entry.dims.size() == 2;
}

const TensorEntry* bias_of(const StateDict& state_dict, const std::string& weight) {
  constexpr std::string_view kWeight = "weight";
  if (!weight.ends_with(kWeight)) return nullptr;
  return state_dict.find(weight.substr(0, weight.size() - kWeight.size()) + "bias");
}

}  // namespace

bool apply_tensor_map(StateDict& state_dict, const std::filesystem::path& path) {
  std::filesystem::path side_car = path;
  side_car += ".tensor_map.json";
  if (!std::filesystem::exists(side_car)) return false;
  const MappedFile file(side_car);
  const std::string where = printable(side_car.string());
  const Json json = Json::parse(as_text(file.bytes()), where);
  std::map<std::string, std::string, std::less<>> names;
  for (const auto& [name, real] : json.object(where)) {
    names[name] = real.string(where + ": " + printable(name));
  }
  std::vector<std::string> renamed;
  for (const TensorEntry& entry : state_dict.tensors()) {
    const auto found = names.find(entry.name);
    if (found != names.end() && found->second.empty()) {
      fail<CheckpointError>(where + ": " + printable(entry.name), "a name", "an empty text");
    }
    renamed.push_back(found == names.end() ? entry.name : found->second);
  }
  state_dict.rename(renamed);
  return true;
}

void orient_matrices(StateDict& state_dict, bool swapped, const std::string& where) {
  std::int64_t as_written = 0, other_way = 0;
  for (const TensorEntry& entry : state_dict.tensors()) {
    if (!is_packed_matrix(entry) || entry.dims[0] == entry.dims[1]) continue;
    const TensorEntry* const bias = bias_of(state_dict, entry.name);
    if (bias == nullptr || bias->dims.size() != 1) continue;
    if (bias->dims[0] == entry.dims[0]) ++as_written;
    if (bias->dims[0] == entry.dims[1]) ++other_way;
  }
  if (as_written != other_way) swapped = other_way > as_written;
  state_dict.transform([&](TensorEntry& entry) {
    if (!is_packed_matrix(entry)) return;
    if (swapped) {
      std::swap(entry.dims[0], entry.dims[1]);
      entry.strides = {entry.dims[1], 1};
    }
    const std::int64_t block = dtype_numbers(entry.dtype);
    if (entry.dims[1] % block != 0) {
      fail<CheckpointError>(where + ": " + printable(entry.name),
                            "rows of whole blocks of " + std::to_string(block) + " numbers for " +
                                dtype_name(entry.dtype),
                            "shape " + dims_text(entry.dims));
    }
  });
}

}  // namespace sam_rlx
