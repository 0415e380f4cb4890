// Tensor, View and ConstView.

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include "core/tensor.h"
#include "core_check.h"

namespace {

using sam_rlx::ConstView;
using sam_rlx::InternalError;
using sam_rlx::InvalidArgument;
using sam_rlx::Shape;
using sam_rlx::Tensor;
using sam_rlx::View;

Tensor counted(const Shape& shape) {
  Tensor result(shape);
  for (std::int64_t i = 0; i < result.numel(); ++i) result.data()[i] = static_cast<float>(i);
  return result;
}

void check_ownership() {
  // Below and above the size from which blocks are mapped.
  for (const std::int64_t count : {1, 1000, 1 << 19}) {
    const Tensor zeros = Tensor::zeros({count});
    EXPECT(reinterpret_cast<std::uintptr_t>(zeros.data()) % 64 == 0);
    EXPECT(zeros.data()[0] == 0.0F && zeros.data()[count - 1] == 0.0F);
  }
  Tensor source = counted({2, 3});
  Tensor copy = source.clone();
  EXPECT(copy.shape() == source.shape() && copy.data() != source.data());
  source.data()[5] = -1.0F;
  EXPECT(copy.data()[5] == 5.0F);

  const float* const data = copy.data();
  const Tensor moved = std::move(copy);
  EXPECT(moved.data() == data && moved.shape() == (Shape{2, 3}));
  EXPECT(copy.empty());  // NOLINT(bugprone-use-after-move)

  const Tensor nothing({4, 0});
  EXPECT(!nothing.empty() && nothing.numel() == 0 && nothing.clone().shape() == (Shape{4, 0}));
  EXPECT(Tensor().empty());
}

// Constants lie in the program's file, which is mapped.
constexpr float kConstants[1 << 13] = {1.0F, 2.0F, 3.0F};

void check_mapped() {
  const ConstView constants(kConstants, {1 << 13});
  {
    Tensor tensor = Tensor::mapped(constants);
    EXPECT(!tensor.empty() && tensor.shape() == constants.shape);
    EXPECT(std::as_const(tensor).data() == kConstants && tensor.clone().data() != kConstants);
    tensor.data()[1] = -1.0F;  // into a copy
    EXPECT(std::as_const(tensor).data() != kConstants && tensor.data()[2] == 3.0F);
  }
  {
    const Tensor freed = Tensor::mapped(constants);
  }
  Tensor tensor = Tensor::mapped(constants);
  tensor.own();
  const float* const data = std::as_const(tensor).data();
  EXPECT(data != kConstants && data[0] == 1.0F && data[1] == 2.0F);
  tensor.own();
  EXPECT(tensor.data() == data);
}

void check_sizes() {
  const std::int64_t before = sam_rlx::allocation_count();
  constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
  THROWN(InvalidArgument, Tensor({-1}));
  THROWN(InvalidArgument, Tensor({kLargest, 2}));
  THROWN(InvalidArgument, Tensor({kLargest / 2}));  // its bytes do not fit
  EXPECT(sam_rlx::allocation_count() == before);
  THROWN(std::bad_alloc, sam_rlx::allocate_aligned(std::numeric_limits<std::size_t>::max()));
}

void check_index() {
  Tensor tensor = counted({2, 3, 4});
  const View view = tensor;
  EXPECT(view[1].shape == (Shape{3, 4}) && view[1].data[0] == 12.0F);
  EXPECT(view[1][2].shape == (Shape{4}) && view[1][2].data[3] == 23.0F);
  EXPECT(view[1][2][3].shape == Shape() && view[1][2][3].data[0] == 23.0F);
  const ConstView fixed = view;
  EXPECT(fixed.data == view.data && fixed[1][2].data == view[1][2].data);
  for (const std::int64_t i : {-1, 2, 1 << 30}) {
    EXPECT(core_check::contains(THROWN(InternalError, view[i]), "i < view.shape[0]"));
    THROWN(InternalError, fixed[i]);
  }
  THROWN(InternalError, view[1][2][3][0]);                    // rank 0
  THROWN(InternalError, ConstView(nullptr, Shape{2, 3})[0]);  // no data
  EXPECT(ConstView(nullptr, Shape{2, 0})[1].numel() == 0);
  THROWN(InternalError, Tensor::copy_of(ConstView(nullptr, Shape{1})));
}

void check_reshape() {
  Tensor tensor = counted({2, 6});
  const View view = tensor.view().reshape({3, 4});
  EXPECT(view.data == tensor.data() && view[2].data[3] == 11.0F);
  const ConstView fixed = ConstView(view).reshape({12});
  EXPECT(fixed.data == tensor.data() && fixed.shape == (Shape{12}));
  const std::string text = THROWN(InternalError, view.reshape({3, 5}));
  EXPECT(core_check::contains(text, "reshape of (3, 4) to (3, 5)"));
  THROWN(InternalError, fixed.reshape({11}));
  EXPECT(Tensor({0, 5}).view().reshape({7, 0}).numel() == 0);
}

}  // namespace

void core_check::check_tensor() {
  check_ownership();
  check_mapped();
  check_sizes();
  check_index();
  check_reshape();
}
