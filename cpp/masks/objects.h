#pragma once

#include <cstdint>
#include <vector>

#include "masks/rle.h"

namespace sam_rlx {

constexpr double kPartInside = 0.8;    // of a part's pixels lie in the mask around it
constexpr double kSameObject = 0.8;    // IoU of two masks of one object
constexpr double kUnionCovered = 0.8;  // of a union's pixels lie in the masks that it joins
constexpr double kApart = 0.2;        // of the smaller mask's pixels, at most, lie in the other one
constexpr double kObjectShare = 0.2;  // of a mask's pixels are in a component that may be an object
constexpr double kSpeckShare = 0.25;  // of the largest component's pixels: a speck has less
constexpr double kGroundEdge = 0.01;  // of a side: so near to an edge of the image is at the edge

// The masks of an image, each without those of its components that are objects of their own: a
// component of at least kObjectShare of the mask's pixels that is of the same object (kSameObject)
// as another mask. What a model took for one object is then the other one, or empty. Holes count
// as filled.
std::vector<Rle> without_other_objects(const std::vector<Rle>& masks);

// Which of the masks of an image are objects, for counting: indices, in the order of the input.
// Masks are compared without their specks, which are most often of other objects, and with their
// holes filled, so that a ring is as large as the disc in it.
//
// - What reaches all four edges of the image is ground, and goes, unless all masks do.
// - From the largest mask to the smallest: a mask is a union of several objects, and goes, if at
//   least two masks inside of it that are apart from each other cover kUnionCovered of it. Masks
//   of the same object (kSameObject) do not count.
// - Else it is an object. All masks inside of it (kPartInside) are parts of it, and go. Of masks of
//   the same object, such as a ring and its disc, the one with the most pixels stays. Pixels
//   beside a mask's largest component count against it.
//
// Empty masks go. All masks have the same size.
std::vector<std::int64_t> keep_objects(const std::vector<Rle>& masks);

}  // namespace sam_rlx
