#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sam_rlx::sam3 {

// Byte pair encoding of texts. Ids are: 256 bytes, the same as ends of words, one for each merge,
// <start_of_text>, <end_of_text>.
// Upstream: sam3/model/tokenizer_ve.py, SimpleTokenizer; it cleans the text before, ours does not.
class Tokenizer {
 public:
  // merges: ids of the two parts of each merge, best first, as little-endian 16-bit numbers.
  explicit Tokenizer(std::string_view merges);

  std::int64_t vocab_size() const { return sot_token_id() + 2; }
  std::int32_t sot_token_id() const { return 2 * kBytes + num_merges_; }
  std::int32_t eot_token_id() const { return sot_token_id() + 1; }

  // The ids of a text, UTF-8 in lower case, without start and end. Raises InvalidArgument when it
  // is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text) const;

  // Writes start, text and end, and 0 behind them. What is too long is cut: the last id is the end
  // all the same. Returns how many ids the whole text has.
  std::int64_t operator()(std::string_view text, std::span<std::int64_t> ids) const;

 private:
  static constexpr std::int32_t kBytes = 256;

  void append_word(std::string_view word, std::vector<std::int32_t>& ids) const;
  // The id of two neighbours merged, or -1.
  std::int32_t merged(std::int32_t left, std::int32_t right) const;

  std::int32_t num_merges_ = 0;
  std::array<std::int32_t, kBytes> byte_ids_{};
  std::vector<std::uint64_t> merges_;  // left << 32 | right << 16 | position, sorted
};

}  // namespace sam_rlx::sam3
