// From the bits of masks to what is drawn.

const u32 = ([r, g, b], alpha) =>
  ((Math.round(alpha * 255) << 24) | (b << 16) | (g << 8) | r) >>> 0;

export const newCanvas = (width = 1, height = 1) =>
  Object.assign(document.createElement("canvas"), { width, height });

// The masks of a message: their bits come as they are or, which may be shorter, as how many of them are
// 0, then 1, then 0, and so on; each number in groups of 7 bits, the lowest first.
export const masksOf = (heads, buffers) =>
  heads.map((head, at) => ({ head, bits: head.runs ? unrolled(head, buffers[at]) : buffers[at] }));

function unrolled({ box: [x0, y0, x1, y1] }, runs) {
  const bits = new Uint8Array((y1 - y0) * ((x1 - x0 + 7) >> 3));
  for (let at = 0, from = 0, set = false; from < runs.length; set = !set) {
    let end = at;
    let part = 128;
    for (let shift = 0; part > 127; shift += 7) {
      part = runs[from++];
      end += (part & 127) << shift;
    }
    if (set) fill(bits, at, end);
    at = end;
  }
  return bits;
}

// Set the bits from one to another, the end excluded.
function fill(bits, from, end) {
  const [first, last] = [from >> 3, end >> 3];
  const [begin, rest] = [255 >> (from & 7), 255 & ~(255 >> (end & 7))];
  if (first === last) bits[first] |= begin & rest;
  else {
    bits[first] |= begin;
    bits.fill(255, first + 1, last);
    if (rest) bits[last] |= rest;
  }
}

// Whether a pixel is set, with a border of `pad` empty pixels around the mask's box.
function unpack(head, bits, pad) {
  const [x0, y0, x1, y1] = head.box;
  const width = x1 - x0;
  const height = y1 - y0;
  const stride = width + 2 * pad;
  const row = (width + 7) >> 3;
  const out = new Uint8Array(stride * (height + 2 * pad));
  for (let y = 0; y < height; y++) {
    let at = (y + pad) * stride + pad;
    const from = y * row;
    for (let x = 0; x < width; x++, at++) out[at] = (bits[from + (x >> 3)] >> (7 - (x & 7))) & 1;
  }
  return out;
}

// Whether a mask has a position of the image, whose grid may be coarser.
export function hasPixel({ head, bits }, image, { x, y }) {
  const [x0, y0, x1, y1] = head.box;
  const column = Math.floor((x * head.size[0]) / image.width);
  const line = Math.floor((y * head.size[1]) / image.height);
  if (column < x0 || column >= x1 || line < y0 || line >= y1) return false;
  const at = (line - y0) * ((x1 - x0 + 7) >> 3) + ((column - x0) >> 3);
  return !!((bits[at] >> (7 - ((column - x0) & 7))) & 1);
}

// A canvas with the filling and the outline of a mask; `x`, `y` say where in the grid it lies. An
// outline of `reach` pixels of the grid; 0 for none.
export function painted({ head, bits }, color, fill, reach) {
  const [x0, y0, x1, y1] = head.box;
  const width = x1 - x0;
  const height = y1 - y0;
  if (width < 1 || height < 1) return null;
  const canvas = newCanvas(width, height);
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(width, height);
  const out = new Uint32Array(pixels.data.buffer);
  const set = unpack(head, bits, reach);
  const stride = width + 2 * reach;
  const inner = u32(color, fill);
  const outer = u32(color, 1);
  for (let y = 0, to = 0; y < height; y++) {
    for (let x = 0, at = (y + reach) * stride + reach; x < width; x++, at++, to++) {
      if (!set[at]) continue;
      const near =
        set[at - reach] & set[at + reach] & set[at - reach * stride] & set[at + reach * stride];
      out[to] = near ? inner : outer;
    }
  }
  context.putImageData(pixels, 0, 0);
  return { canvas, x: x0, y: y0 };
}

// The edges between pixels of a mask and others, as a path in pixels of its grid: it can be drawn
// as thin as one likes where each pixel is seen as a square.
export function outlinePath({ head, bits }) {
  const [x0, y0, x1, y1] = head.box;
  const width = x1 - x0;
  const height = y1 - y0;
  const stride = width + 2;
  const set = unpack(head, bits, 1);
  const path = new Path2D();
  const edges = (outer, inner, index, put) => {
    for (let a = 0; a <= outer; a++) {
      let from = -1;
      for (let b = 0; b <= inner; b++) {
        const edge = b < inner && set[index(a, b)] !== set[index(a + 1, b)];
        if (edge && from < 0) from = b;
        if (!edge && from >= 0) {
          put(a, from, b);
          from = -1;
        }
      }
    }
  };
  edges(height, width, (y, x) => y * stride + x + 1, (y, from, to) => {
    path.moveTo(x0 + from, y0 + y);
    path.lineTo(x0 + to, y0 + y);
  });
  edges(width, height, (x, y) => (y + 1) * stride + x, (x, from, to) => {
    path.moveTo(x0 + x, y0 + from);
    path.lineTo(x0 + x, y0 + to);
  });
  return path;
}

// The label of a layer at a position of the image; 0 for none.
export function labelAt({ labels, size }, image, { x, y }) {
  const [width, height] = size;
  return labels[Math.floor((y * height) / image.height) * width + Math.floor((x * width) / image.width)];
}

// The masks of everything mode, each in a colour of its own; one of them stands out.
export function layerCanvas({ labels, size }, chosen) {
  const canvas = newCanvas(...size);
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(...size);
  const out = new Uint32Array(pixels.data.buffer);
  const width = size[0];
  for (let at = 0; at < labels.length; at++) {
    const label = labels[at];
    if (!label) continue;
    const hue = (label * 137.5) % 360;
    const part = (shift) => Math.round(140 + 100 * Math.cos(((hue + shift) * Math.PI) / 180));
    const edge = labels[at + 1] !== label || labels[at + width] !== label;
    out[at] = u32([part(0), part(240), part(120)], edge ? 1 : label === chosen ? 0.75 : 0.28);
  }
  context.putImageData(pixels, 0, 0);
  return canvas;
}
