#include "loading/hugging_face_names.h"

#include "loading/family.h"
#include "loading/key_map.h"
#include "loading/sam3/names.h"

namespace sam_rlx {

std::string meta_name(std::string_view family, std::string_view hugging_face_name) {
  const Family& found = family_named(family);
  if (found.hugging_face.empty()) return sam3_meta_name(hugging_face_name);
  return mapped_key(found.hugging_face,
                    hugging_face_name == kEncodingCopy ? kEncodingName : hugging_face_name);
}

}  // namespace sam_rlx
