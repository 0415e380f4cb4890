#pragma once

#include <string>
#include <string_view>

namespace sam_rlx {

// ggml's readers refuse names of 64 bytes and more, and Meta's are longer. These are the names of
// the scheme "short-1": short beginnings, one for each part of a model of the family "sam", "sam2"
// or "sam3". Names without a row stay as they are. The two are inverse to each other.
std::string to_short_name(const std::string& family, std::string_view meta_name);
std::string from_short_name(const std::string& family, std::string_view short_name);

}  // namespace sam_rlx
