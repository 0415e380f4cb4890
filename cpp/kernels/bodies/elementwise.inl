void gelu_all(float* x, Index n) noexcept {
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, gelu(load(x + i)));
  if (i < n) store_n(x + i, gelu(load_n(x + i, n - i)), n - i);
}
