#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sam_rlx {

bool is_utf8(std::string_view text) noexcept;

// A name out of a file, fit for a message: control and non-ASCII bytes escaped, long names cut.
std::string printable(std::string_view text);
// The same between quotation marks.
std::string quoted(std::string_view text);

// "(2, 3)", of any rank.
std::string dims_text(const std::vector<std::int64_t>& dims);

// "a, b or c".
std::string alternatives(const std::vector<std::string_view>& names);

}  // namespace sam_rlx
