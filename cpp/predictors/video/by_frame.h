#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sam_rlx {

// A value for each of some frames, ascending. A vector: one block of memory, which is quick to copy
// and to search.
template <class T>
class ByFrame {
 public:
  struct Entry {
    std::int64_t frame;
    T value;
  };

  // Null: there is none.
  const T* find(std::int64_t frame) const {
    const auto found = from(frame);
    return found != end() && found->frame == frame ? &found->value : nullptr;
  }
  T* find(std::int64_t frame) { return const_cast<T*>(std::as_const(*this).find(frame)); }
  bool contains(std::int64_t frame) const { return find(frame) != nullptr; }
  // Replaces the value before, if there was one.
  void set(std::int64_t frame, T value) {
    if (T* const before = find(frame)) {
      *before = std::move(value);
    } else {
      entries_.insert(from(frame), Entry{frame, std::move(value)});
    }
  }
  void erase(std::int64_t frame) {
    const auto found = from(frame);
    if (found != std::as_const(entries_).end() && found->frame == frame) entries_.erase(found);
  }
  template <class Is>
  void erase_if(const Is& is) {
    std::erase_if(entries_, is);
  }
  void erase_before(std::int64_t frame) {
    entries_.erase(std::as_const(entries_).begin(), from(frame));
  }
  void clear() { entries_.clear(); }

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  // The first entry that is not before a frame.
  auto from(std::int64_t frame) const {
    return std::lower_bound(
        entries_.begin(), entries_.end(), frame,
        [](const Entry& entry, std::int64_t bound) { return entry.frame < bound; });
  }

 private:
  std::vector<Entry> entries_;
};

// Frames, ascending.
class FrameSet {
 public:
  bool contains(std::int64_t frame) const {
    return std::binary_search(frames_.begin(), frames_.end(), frame);
  }
  void insert(std::int64_t frame) {
    const auto position = std::lower_bound(frames_.begin(), frames_.end(), frame);
    if (position == frames_.end() || *position != frame) frames_.insert(position, frame);
  }
  void erase(std::int64_t frame) { std::erase(frames_, frame); }
  void erase_before(std::int64_t frame) {
    frames_.erase(frames_.begin(), std::lower_bound(frames_.begin(), frames_.end(), frame));
  }
  void clear() { frames_.clear(); }
  auto begin() const { return frames_.begin(); }
  auto end() const { return frames_.end(); }

 private:
  std::vector<std::int64_t> frames_;
};

}  // namespace sam_rlx
