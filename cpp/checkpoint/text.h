#pragma once

#include <cstddef>
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

// The lines of a message that a file may make long: the first ones are kept, the others counted.
class ShortList {
 public:
  explicit ShortList(std::size_t max_lines) : max_lines_(max_lines) {}

  // Whether the next line is only counted: then its text may be left empty.
  bool full() const { return lines_.size() >= max_lines_; }
  void add(std::string line);
  void add_all(const ShortList& other);
  bool empty() const { return lines_.empty(); }
  // With "... and N more" at the end if not all were kept.
  std::vector<std::string> lines() const;

 private:
  std::size_t max_lines_;
  std::size_t more_ = 0;
  std::vector<std::string> lines_;
};

// "(2, 3)"; the first axes of a rank that no model has.
std::string dims_text(const std::vector<std::int64_t>& dims);

// "a, b or c".
std::string alternatives(const std::vector<std::string_view>& names);

}  // namespace sam_rlx
