#pragma once

#include <string>
#include <vector>

#include "bindings/named_session.h"

namespace sam_rlx {

// A TextResult as Python sees it.
struct TextAnswer {
  std::string text;
  std::vector<std::int64_t> obj_ids;
  std::vector<float> scores;
  py::array_t<bool> masks;          // (K, H, W)
  py::array_t<std::int64_t> boxes;  // (K, 4) xyxy, inclusive, of masks before they are cut
  std::int64_t num_tracked, num_dropped;
};

// A FrameResult as Python sees it: with names instead of numbers.
struct FrameAnswer {
  std::int64_t frame_index;
  py::list obj_ids;  // in the order of the masks
  std::vector<float> scores;
  py::array_t<bool> masks;                   // (K, H, W)
  py::array_t<float> logits, low_res_masks;  // (K, H, W), (K, S, S)
  std::vector<TextAnswer> texts;
};
FrameAnswer answer(const NamedSession& names, FrameResult result);

void register_frame_answer(py::module_& m);

}  // namespace sam_rlx
