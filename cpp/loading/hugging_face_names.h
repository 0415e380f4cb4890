#pragma once

#include <string>
#include <string_view>

namespace sam_rlx {

// The name in Meta's dialect of a tensor of transformers' classes: SamModel, Sam2VideoModel or
// Sam3VideoModel. What Meta has in one tensor (queries, keys and values of SAM 3's detector) or in
// several (the kinds of points) keeps the rest of its name. A name that no row fits stays.
std::string meta_name(std::string_view family, std::string_view hugging_face_name);

}  // namespace sam_rlx
