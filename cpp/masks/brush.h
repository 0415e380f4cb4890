#pragma once

#include <cstdint>
#include <string>

namespace sam_rlx {

// A mask (height, width) of bytes, 0 or not, as Label Studio's brush code: its four channels, 0 or
// 255 each, row by row, packed by the rules of thi.ng's rle-pack with words of 8 bits and run
// lengths of 3, 4, 8 and 16. The same bytes as label_studio_sdk's `mask2rle` of 255 times the mask.
// Raises InvalidArgument for more than 2^30 pixels, which the code's length cannot tell.
std::string encode_brush(const std::uint8_t* mask, std::int64_t height, std::int64_t width);

}  // namespace sam_rlx
