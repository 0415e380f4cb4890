#pragma once

#include <vector>

#include "masks/borders.h"
#include "masks/rle.h"

namespace sam_rlx {

// Corners of a closed line that neither touches nor crosses itself; the first is not repeated.
using Ring = std::vector<Corner>;
// The border of a part of a mask, clockwise on the screen, and then those of its holes, which run
// the other way round. Rings touch each other in single corners at most.
using Outline = std::vector<Ring>;

// The outline of each 4-connected part of a mask, by columns: together they cover the mask's pixels
// and nothing else. Pixels that share only a corner are two parts, unless others join them; the
// lines through the corner then belong to two rings.
std::vector<Outline> mask_to_outlines(const Rle& mask);

}  // namespace sam_rlx
