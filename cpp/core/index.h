#pragma once

#include <cstddef>
#include <cstdint>

namespace sam_rlx {

// A number of an element, which is not below 0, for the containers of the standard library.
inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace sam_rlx
