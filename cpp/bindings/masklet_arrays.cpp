#include "bindings/masklet_arrays.h"

#include <optional>

#include "bindings/config_dict.h"
#include "core/error.h"

namespace sam_rlx {

MaskletConfig masklet_config(const py::dict& options) {
  return read_options<MaskletConfig>(options, "MaskletTracker",
                                     "an option of upstream's video model");
}

MaskletExamples examples_of(const Array<double>& boxes, const Array<std::int32_t>& labels,
                            bool fractions) {
  if (boxes.ndim() != 2 || boxes.shape(1) != 4 || labels.ndim() != 1 ||
      labels.shape(0) != boxes.shape(0)) {
    fail("boxes", "(N, 4) with N labels", "other shapes");
  }
  return {.boxes = {boxes.data(), boxes.data() + boxes.size()},
          .labels = {labels.data(), labels.data() + labels.size()},
          .fractions = fractions};
}

DrawnMasklets draw_masklets(const MaskletTracker& tracker, std::int64_t frame) {
  DrawnMasklets drawn;
  std::optional<GilRelease> drawing;  // last, since it ends first
  tracker.draw(frame, [&](const MaskletTracker::Seen& found) {
    drawn.seen = found;
    const auto count = static_cast<std::int64_t>(found.obj_ids.size());
    drawn.masks = make_array<bool>({count, found.hw.height, found.hw.width});
    auto* const pixels = reinterpret_cast<std::uint8_t*>(drawn.masks.mutable_data());
    drawing.emplace();
    return pixels;
  });
  drawing.reset();
  return drawn;
}

}  // namespace sam_rlx
