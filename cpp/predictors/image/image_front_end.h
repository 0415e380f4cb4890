#pragma once

#include <memory>

#include "core/context.h"
#include "core/image.h"
#include "layers/fields.h"
#include "loading/model.h"
#include "models/sam2/sam2.h"
#include "models/sam3/detector.h"
#include "models/sam3/multiplex_tracker.h"
#include "predictors/image/image_transform.h"

namespace sam_rlx {

// Of predictors of single images.
struct ImageOptions {
  Resize resize = Resize::kFloat;

  template <class V>
  void fields(V& v) {
    v("resize", resize, "how SAM 3 gets images of its input's size");
  }
};

// The way from pixels to features, one for each family. Image, concept and video predictors use the
// same; how an image is resized is their argument.
class ImageFrontEnd {
 public:
  static std::unique_ptr<const ImageFrontEnd> make(const std::shared_ptr<const Model>& model);
  virtual ~ImageFrontEnd() = default;

  // Raises InvalidArgument when the family's image predictor has no such resize.
  virtual void check(Resize resize) const;
  // Whether clicks go to SAM 2's heads.
  virtual bool has_sam2_heads() const { return false; }

  // What is made of an image; null for what is not needed. Tensors of the right size are used
  // again. Nothing is written before all that can be interrupted is done, unless both are asked
  // for.
  struct Outputs {
    sam2::ImageFeatures* clicks = nullptr;  // without no_mem_embed; SAM 1 has the embedding only
    Tensor* hq_features = nullptr;          // SAM-HQ
    sam3::DetectorFeatures* detector = nullptr;  // SAM 3
    sam2::ImageFeatures* buckets = nullptr;      // SAM 3.1, for objects of a video
  };
  // uint8 RGB -> out.
  void encode(Context& ctx, const ImageView& image, Resize resize, const Outputs& out) const;
  // input (side, side, 3), normalized -> out.
  void encode_input(Context& ctx, ConstView input, const Outputs& out) const;

  // Side of the network's square input.
  virtual std::int64_t side() const = 0;
  // Size of an image inside it.
  virtual Size input_hw(Size /*orig_hw*/) const { return {side(), side()}; }
  // The decoder of clicks and the memory behind it. Raises UnsupportedError when the model has
  // none.
  virtual const sam2::Sam2Heads& heads() const;
  // What follows objects in buckets, or null. SAM 3.1.
  virtual const sam3::MultiplexTracker* multiplex() const { return nullptr; }
  // Encoding of the positions of the coarsest map: (g, g, C). For video.
  virtual ConstView vision_pos_enc() const;

 protected:
  explicit ImageFrontEnd(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  const Model& model() const { return *model_; }

 private:
  // uint8 RGB -> input (side, side, 3), normalized.
  virtual void preprocess(Context& ctx, const ImageView& image, Resize resize,
                          View input) const = 0;
  // input (1, side, side, 3)
  virtual void forward_image(Context& ctx, ConstView input, const Outputs& out) const = 0;

  std::shared_ptr<const Model> model_;
};

}  // namespace sam_rlx
