#include "models/sam3/config.h"

#include <algorithm>

namespace sam_rlx::sam3 {

bool ViTConfig::is_global(std::int64_t block) const {
  return std::find(global_att_blocks.begin(), global_att_blocks.end(), block) !=
         global_att_blocks.end();
}

}  // namespace sam_rlx::sam3
