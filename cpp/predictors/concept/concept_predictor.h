#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/context.h"
#include "core/image.h"
#include "core/in_use.h"
#include "layers/fields.h"
#include "loading/model.h"
#include "masks/geometry.h"
#include "models/sam3/detector.h"
#include "predictors/concept/concept_geometry.h"
#include "predictors/concept/text_cache.h"
#include "predictors/image/image_front_end.h"
#include "predictors/image/published_size.h"

namespace sam_rlx {

// What the texts of an image share.
struct ConceptImage {
  sam3::DetectorFeatures features;
  Size orig_hw;
  std::vector<Tensor> click_embeddings;  // as those of ImagePredictor, or none
};

// Of one call.
struct ConceptOptions {
  double threshold = 0.5;
  bool presence = true;

  template <class V>
  void fields(V& v) {
    v("threshold", threshold, 0, 1, "keep what has a score above it");
    v("presence", presence, "scores count whether the image has any instance at all");
  }
};

struct ConceptRequest {
  sam3::TokenIds texts;
  ConceptGeometry geometry = {};
  std::span<const ConstView> examples = {};  // (n, C) each, of `encode_examples`
  ConceptOptions options = {};
  bool raw = false;
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // of texts
};

// What the network gives for all queries of a text.
struct RawDetections {
  Tensor logits;  // (Q,)
  Tensor boxes;   // (Q, 4): cx, cy, w, h as fractions of the sides
  float presence_logit = 0.0F;
  Tensor masks;         // (Q, S, S), logits
  Tensor semantic_seg;  // (S, S), logits
};

// The instances of a text, in the order of the queries.
struct ConceptFindings {
  std::vector<std::int64_t> queries;
  Tensor scores;   // (K,)
  Tensor boxes;    // (K, 4): xyxy in pixels of the image; not clipped
  Tensor low_res;  // (K, S, S), logits
  std::optional<RawDetections> raw;
};

// What stands for a pixel of a mask.
enum class MaskValues { kLogits, kProbabilities };

// All instances of what texts, points and boxes show on an image. Upstream:
// sam3/model/sam3_image_processor.py, Sam3Processor. A failed call leaves the predictor as it was.
class ConceptPredictor {
 public:
  // `clicks`: images get embeddings for clicks too, from the same pass through the trunk. Raises
  // UnsupportedError when the model is not SAM 3, or has no tracker that would take clicks.
  ConceptPredictor(std::shared_ptr<const Model> model, int num_threads, Resize resize, bool clicks);

  const Model& model() const { return *model_; }
  int num_threads() const { return num_threads_; }

  // The tensors of the image before are used again if nobody else holds it. `orig_hw`: another
  // size for the results than the image's.
  void set_image(const ImageView& image, std::optional<Size> orig_hw = std::nullopt);
  // Images may be kept, and set again, here or in another predictor of the same model.
  std::shared_ptr<ConceptImage> concept_image() const;
  void set_concept_image(std::shared_ptr<ConceptImage> concept_image);
  // Of the current image, or none. Any thread may ask while a call runs.
  std::optional<Size> orig_hw() const { return orig_hw_.get(); }

  // Copies of all that texts need of the current image, in the layout of DetectorFeatures, and
  // an image that is made of them.
  std::vector<Tensor> image_embeddings() const;
  void set_image_embeddings(std::span<const ConstView> embeddings, Size orig_hw);

  // What boxes on the current image show, (boxes + 1, C): examples for requests on other images.
  Tensor encode_examples(const ConceptGeometry& geometry);
  // Raises InvalidArgument for what `encode_examples` would not give.
  void check_examples(std::span<const ConstView> examples) const;
  // Computes the text features of texts ahead of `find`, which needs no more of them then.
  void encode_text(const sam3::TokenIds& texts);
  // One entry a text. Texts are run one after the other; each is as if it were alone.
  std::vector<ConceptFindings> find(const ConceptRequest& request);

  // The way of masks from the network to an image: low_res (K, S, S) logits -> out (K, H, W) of
  // that size, or bytes that are 1 inside.
  void upscale(Size orig_hw, ConstView low_res, MaskValues values, View out);
  void binarize(Size orig_hw, ConstView low_res, std::uint8_t* out);

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }
  void set_trace(Trace* trace) { trace_ = trace; }

 private:
  Context context();
  const ConceptImage& current(const char* where) const;
  void adopt(std::shared_ptr<ConceptImage> concept_image) noexcept;
  MaskGeometry mask_geometry(Size orig_hw) const;
  const sam3::VETextEncoder& language_backbone() const {
    return *model_->sam3().detector.backbone.language_backbone;
  }
  ConceptFindings ground(Context& ctx, const TextCache::Text& text,
                         const sam3::GeometricPrompt& geometry,
                         const ConceptRequest& request) const;
  RawDetections raw_detections(Context& ctx, const sam3::Detections& found) const;

  std::shared_ptr<const Model> model_;
  int num_threads_;
  std::unique_ptr<const ImageFrontEnd> front_end_;
  Resize resize_;
  bool clicks_;
  Workspace workspace_;
  TextCache texts_;
  std::shared_ptr<ConceptImage> concept_image_;  // or none
  PublishedSize orig_hw_;                        // its own
  void (*poll_interrupt_)() = nullptr;
  Trace* trace_ = nullptr;
  mutable BusyFlag busy_;
};

}  // namespace sam_rlx
