#include "models/sam3/sam3.h"

#include "core/error.h"

namespace sam_rlx::sam3 {

// ---------------------------------------------------------------- parts

void VLBackbone::visit(ParamVisitor& v) {
  v("vision_backbone", vision_backbone);
  if (language_backbone) v("language_backbone", *language_backbone);
}

void Detector::visit(ParamVisitor& v) {
  v("backbone", backbone);
  if (heads) heads->visit(v);
}

// ---------------------------------------------------------------- Sam3

Sam3::Sam3(const Sam3Config& sizes)
    : config(sizes),
      detector{.backbone = {.vision_backbone = Sam3DualViTDetNeck(sizes.vision),
                            .language_backbone = std::nullopt},
               .heads = std::nullopt} {
  if (config.has_detector) {
    detector.backbone.language_backbone.emplace(config.text);
    detector.heads.emplace(config.detector);
  } else {
    detector.backbone.vision_backbone.convs.clear();
  }
  if (config.tracker) tracker.emplace(*config.tracker, config.multiplex.has_value());
  if (config.multiplex) multiplex.emplace(*config.multiplex);
}

void Sam3::visit(ParamVisitor& v) {
  v("detector", detector);
  if (tracker) v("tracker", *tracker);
  if (multiplex) v("tracker.model", *multiplex);
}

void Sam3::fold() {
  if (tracker) tracker->fold_projections(detector.backbone.vision_backbone);
  if (multiplex) multiplex->fold_projections(detector.backbone.vision_backbone);
}

void Sam3::forward_image(Context& ctx, ConstView image, const ImageOutputs& out) const {
  const Workspace::Scope scratch(ctx.workspace);
  const View map = vision().forward_trunk(ctx, image);
  if (out.detector != nullptr) {
    if (!detector.heads) fail_internal("features for texts from a checkpoint without a detector");
    const Workspace::Scope levels_scratch(ctx.workspace);
    const std::vector<View> levels = vision().levels(ctx, map, vision().convs);
    detector.heads->prepare(ctx, {levels[0][0], levels[1][0], levels[2][0]}, *out.detector);
  }
  if (out.tracker != nullptr) {
    if (!tracker) fail_internal("features for clicks from a checkpoint without a tracker");
    tracker->forward_image(ctx, vision(), map, *out.tracker);
  }
  if (out.multiplex != nullptr) {
    if (!multiplex)
      fail_internal("features for buckets from a checkpoint without SAM 3.1's tracker");
    multiplex->forward_image(ctx, vision(), map, *out.multiplex);
  }
}

}  // namespace sam_rlx::sam3
