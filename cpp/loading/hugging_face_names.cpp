#include "loading/hugging_face_names.h"

#include "loading/family.h"
#include "loading/key_map.h"
#include "loading/sam3/names.h"

namespace sam_rlx {

std::string meta_name(std::string_view family, std::string_view hugging_face_name) {
  const Family& found = family_named(family);
  const std::string name = numbered_layer(hugging_face_name);
  if (found.hugging_face.empty()) return sam3_meta_name(name);
  return mapped_key(found.hugging_face,
                    name == kEncodingCopy ? kEncodingName : std::string_view(name));
}

}  // namespace sam_rlx
