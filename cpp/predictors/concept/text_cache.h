#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "models/sam3/text_encoder.h"

namespace sam_rlx {

// What SAM 3's text encoder makes of the texts that were used last, by their ids: it depends on
// nothing else.
class TextCache {
 public:
  static constexpr std::size_t kTexts = 4096;

  struct Text {
    Tensor tokens;                    // (L, C)
    std::unique_ptr<bool[]> padding;  // (L,)
    std::int64_t last_use = 0;
  };

  // Features of each text, in order; what is not there is computed as one batch. They are valid
  // until the next call. At most kTexts texts. Raises as VETextEncoder::forward, and keeps what
  // it has then.
  const std::vector<const Text*>& get(Context& ctx, const sam3::VETextEncoder& encoder,
                                      const sam3::TokenIds& ids);

  std::size_t size() const { return entries_.size(); }

 private:
  // Ids without the zeros behind them.
  using Key = std::vector<std::int64_t>;
  using KeyView = std::span<const std::int64_t>;
  struct Less {
    using is_transparent = void;
    bool operator()(KeyView a, KeyView b) const {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
    }
  };

  void encode(Context& ctx, const sam3::VETextEncoder& encoder, const sam3::TokenIds& ids);
  void drop_oldest();

  std::map<Key, Text, Less> entries_;
  std::vector<const Text*> found_;
  std::int64_t clock_ = 0;
};

}  // namespace sam_rlx
