#pragma once

#include <vector>

#include "masks/outline.h"

namespace sam_rlx {

// Leaves corners out of the outlines of a mask. Each that is left out lies within `tolerance`
// pixels of the line that replaces it; those that cost least go first. A corner stays where lines
// would touch or cross without it: a corner goes only if the triangle that it makes with its
// neighbours holds no other corner. So valid outlines stay valid, and holes stay inside. A ring
// keeps three corners at least.
void simplify_(std::vector<Outline>& outlines, double tolerance);

}  // namespace sam_rlx
