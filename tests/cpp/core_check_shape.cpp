// Shape and checked_multiply.

#include <cstdint>
#include <limits>

#include "core/shape.h"
#include "core_check.h"

namespace {

using sam_rlx::InternalError;
using sam_rlx::InvalidArgument;
using sam_rlx::Shape;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

void check_products() {
  EXPECT(sam_rlx::checked_multiply(0, 0) == 0);
  EXPECT(sam_rlx::checked_multiply(kLargest, 0) == 0);
  EXPECT(sam_rlx::checked_multiply(0, kLargest) == 0);
  EXPECT(sam_rlx::checked_multiply(kLargest, 1) == kLargest);
  // 2^63 - 1 = 7 * 7 * 73 * 127 * 337 * 92737 * 649657.
  EXPECT(sam_rlx::checked_multiply(49, kLargest / 49) == kLargest);
  const std::int64_t half = std::int64_t{1} << 62;
  EXPECT(core_check::contains(THROWN(InvalidArgument, sam_rlx::checked_multiply(half, 2)),
                              "found 4611686018427387904 * 2"));
  THROWN(InvalidArgument, sam_rlx::checked_multiply(2, half));
  THROWN(InvalidArgument, sam_rlx::checked_multiply(kLargest, kLargest));
  THROWN(InvalidArgument, sam_rlx::checked_multiply(-1, 3));
  THROWN(InvalidArgument, sam_rlx::checked_multiply(3, -1));
  THROWN(InvalidArgument, sam_rlx::checked_multiply(0, -1));
}

void check_sizes() {
  const Shape none, line{7}, cube{2, 3, 5};
  EXPECT(none.rank() == 0 && none.numel() == 1 && none.rows() == 1 && none.str() == "()");
  EXPECT(line.rank() == 1 && line.numel() == 7 && line.rows() == 1 && line.str() == "(7,)");
  EXPECT(cube.rank() == 3 && cube.numel() == 30 && cube.rows() == 6 && cube.str() == "(2, 3, 5)");
  EXPECT(cube[0] == 2 && cube[2] == 5 && cube[-1] == 5 && cube[-3] == 2 && cube.last() == 5);
  EXPECT(cube.with_last(9) == (Shape{2, 3, 9}) && cube == (Shape{2, 3, 5}));
  EXPECT(cube != (Shape{2, 3}) && cube != (Shape{2, 3, 5, 1}) && cube != (Shape{2, 3, 6}));
  EXPECT((Shape{4, 0, 3}).numel() == 0 && (Shape{4, 0, 3}).rows() == 0);
}

void check_limits() {
  const Shape huge{std::int64_t{1} << 40, std::int64_t{1} << 40};
  THROWN(InvalidArgument, huge.numel());
  EXPECT(huge.rows() == std::int64_t{1} << 40);
  THROWN(InvalidArgument, huge.with_last(-1).numel());
  THROWN(InvalidArgument, (Shape{std::int64_t{1} << 40, std::int64_t{1} << 40, 1}).rows());

  Shape five{1, 2, 3, 4, 5};
  EXPECT(five.numel() == 120);
  EXPECT(core_check::contains(THROWN(InvalidArgument, five.push_back(6)), "found rank 6"));
  EXPECT(five.rank() == 5 && five.str() == "(1, 2, 3, 4, 5)");
  THROWN(InvalidArgument, Shape({1, 2, 3, 4, 5, 6}));
}

void check_axes() {
  Shape cube{2, 3, 5};
  for (const int axis : {3, 5, -4, 1 << 30, -(1 << 30)}) {
    const std::string text = THROWN(InternalError, static_cast<void>(cube[axis]));
    EXPECT(core_check::contains(text, "shape.h:"));
    EXPECT(core_check::contains(text, "axis < rank_"));
    THROWN(InternalError, cube[axis] = 1);
  }
  THROWN(InternalError, Shape().last());
  THROWN(InternalError, Shape().with_last(3));
  EXPECT(cube == (Shape{2, 3, 5}));
}

}  // namespace

void core_check::check_shape() {
  check_products();
  check_sizes();
  check_limits();
  check_axes();
}
