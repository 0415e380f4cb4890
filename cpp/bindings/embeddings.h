#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/numpy.h"

namespace sam_rlx {

// Makes the embeddings of an earlier run the predictor's image.
template <class Predictor>
void set_image_embeddings(Predictor& predictor, const std::vector<Array<float>>& embeddings,
                          std::pair<std::int64_t, std::int64_t> orig_hw) {
  std::vector<ConstView> views;
  for (const Array<float>& embedding : embeddings) {
    views.push_back(view_of(embedding, "image_embedding"));
  }
  const GilRelease release;
  predictor.set_image_embeddings(views, {orig_hw.first, orig_hw.second});
}

}  // namespace sam_rlx
