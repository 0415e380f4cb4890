#pragma once

#include "core/context.h"

namespace sam_rlx {

// Arithmetic of a detector's scores.

float sigmoid(float x);
// log(x / (1 - x)) of x in [0, 1], with both sides at least 1e-3; numbers outside of [0, 1] count
// as its ends. Upstream: sam3/model/model_misc.py, inverse_sigmoid.
float inverse_sigmoid(float x);

// x = sigmoid(x), in place.
void sigmoid_(Context& ctx, View x);

// x (N, C), N > 0 -> out (1, C): the mean of the rows.
void mean_rows(Context& ctx, ConstView x, View out);
// out (N,): scale * x[i] . vector, within -limit and limit. x (N, C), vector (1, C).
void dot_rows(Context& ctx, ConstView x, ConstView vector, float scale, float limit, View out);

// Probabilities that a query is an instance and that there is one at all: logits (N,) -> out (N,)
// sigmoid(logit) * sigmoid(presence_logit). out may be logits.
void presence_scores(Context& ctx, ConstView logits, float presence_logit, View out);
// The same as logits: inverse_sigmoid of it, within -10 and 10.
void joint_logits(Context& ctx, ConstView logits, float presence_logit, View out);

}  // namespace sam_rlx
