#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/json.h"
#include "checkpoint/state_dict.h"

namespace sam_rlx {

// What the readers of model sizes share. All raise CheckpointError with the name in question: sizes
// come from files, and are checked before anything is allocated for them.

constexpr std::int64_t kMaxConfigSize = 1 << 20;

// A tensor that must be there, with so many axes.
const TensorEntry& required_tensor(const StateDict& state_dict, const std::string& name,
                                   std::size_t rank);
// A side of a tensor: 1 to kMaxConfigSize.
std::int64_t size_of(const TensorEntry& entry, std::size_t axis);

// How many of begin + "0" + end, begin + "1" + end, ... there are.
std::int64_t count_of(const StateDict& state_dict, const std::string& begin,
                      const std::string& end);

// A member of an object: 1 to kMaxConfigSize.
std::int64_t size_in(const Json& json, const char* key, const std::string& where);
std::int64_t size_or(const Json& json, const char* key, std::int64_t fallback,
                     const std::string& where);
// A list of at most kMaxListLength numbers, 0 to kMaxConfigSize.
constexpr std::size_t kMaxListLength = 1024;
std::vector<std::int64_t> sizes_in(const Json& json, const char* key, const std::string& where);

// Three numbers, if the member is there.
void read_pixels(const Json& json, const char* key, const std::string& where,
                 std::array<float, 3>& out);

}  // namespace sam_rlx
