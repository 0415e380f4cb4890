#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/in_use.h"
#include "loading/model.h"
#include "models/sam3/detector.h"

namespace sam_rlx {

// SAM 3's detector as a function of arrays: what transformers' Sam3Model gives and takes. Maps are
// channels first. A failed call leaves the image as it was.
class ConceptNetwork {
 public:
  // Raises UnsupportedError when the model finds no texts.
  ConceptNetwork(std::shared_ptr<const Model> model, int num_threads);

  int num_threads() const { return num_threads_; }

  // Makes normalized pixels (3, S, S) the image, or maps that `vision` gave: its first three.
  void set_pixels(ConstView pixels);
  void set_levels(std::span<const ConstView> levels);

  // What the trunk and the neck make of normalized pixels (3, S, S).
  struct Vision {
    Tensor last_hidden_state;    // (g * g, D)
    std::vector<Tensor> levels;  // (C, h, w), finest first: those that the model was loaded with
  };
  Vision vision(ConstView pixels);
  // Of all levels of the neck, (C, h, w), finest first.
  std::vector<Tensor> position_encodings();

  // Texts (N, L); `hidden` (N, L), or null: ids that no other attends to.
  struct Texts {
    Tensor last_hidden_state;  // (N * L, W)
    Tensor pooler_output;      // (N * L, C)
  };
  Texts text(const sam3::TokenIds& ids, const bool* hidden);

  // All queries of a prompt on the image.
  struct Found {
    Tensor logits;           // (Q,)
    Tensor boxes;            // (Q, 4): corners as fractions of the sides; not clipped
    Tensor reference_boxes;  // (layers, Q, 4): cx, cy, w, h that each layer begins with
    Tensor masks;            // (Q, h, h), logits
    Tensor semantic_seg;     // (1, h, h), logits
    float presence_logit = 0.0F;
  };
  Found detect(const sam3::ConceptPrompt& prompt);

  void set_poll_interrupt(void (*poll)()) { poll_interrupt_ = poll; }

 private:
  Context context();
  const sam3::Sam3& network() const { return model_->sam3(); }
  View channels_last(Context& ctx, ConstView map) const;
  void check_pixels(ConstView pixels) const;
  std::vector<Shape> level_shapes(std::size_t count) const;

  std::shared_ptr<const Model> model_;
  int num_threads_;
  Workspace workspace_;
  sam3::DetectorFeatures features_;
  bool has_image_ = false;
  void (*poll_interrupt_)() = nullptr;
  BusyFlag busy_;
};

}  // namespace sam_rlx
