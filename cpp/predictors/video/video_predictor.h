#pragma once

#include <memory>
#include <utility>

#include "core/in_use.h"
#include "predictors/video/video_session.h"

namespace sam_rlx {

// A session for callers: one call at a time, and a call that fails leaves the session as it was.
class VideoPredictor {
 public:
  VideoPredictor(std::shared_ptr<const Model> model, int num_threads, const VideoOptions& options)
      : session_(std::move(model), num_threads, options) {}

  // These never change.
  const Model& model() const { return session_.model(); }
  int num_threads() const { return session_.num_threads(); }
  std::int64_t side() const { return session_.side(); }
  bool wants_squares() const { return session_.wants_squares(); }

  // Returns work(session), which may change the session.
  template <class Work>
  auto change(const Work& work) {
    const InUse guard(busy_, "VideoPredictor");
    SessionState before = session_.state();
    try {
      return work(session_);
    } catch (...) {
      session_.restore(std::move(before));
      throw;
    }
  }
  // Returns work(session), which changes nothing but scratch memory.
  template <class Work>
  auto use(const Work& work) {
    const InUse guard(busy_, "VideoPredictor");
    return work(session_);
  }

 private:
  VideoSession session_;
  BusyFlag busy_;
};

}  // namespace sam_rlx
