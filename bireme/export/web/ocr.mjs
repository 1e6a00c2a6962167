// Text in pictures, as bireme.ocr reads it: detection, boxes, directions, recognition. settings.json has its options and characters.
import { Network } from "./runner.mjs";

const STEP = 32, LEAST = 3, SAME_LINE = 10, GROWTH = 1.15, WIDTHS = 16;
const distance = ([a, b], [c, d]) => Math.hypot(a - c, b - d);
const half = (x) => { const r = Math.round(x); return Math.abs(x % 1) === 0.5 && r % 2 ? r - 1 : r; }; // Python's round
const stepped = (n, ratio) => Math.max(half(Math.trunc(n * ratio) / STEP) * STEP, STEP);

/** Bytes of blue, green and red, three for each pixel, on white. */
function blueGreenRed({ data, width, height }) {
  const out = new Uint8Array(3 * width * height);
  for (let i = 0; i < width * height; i++) for (let c = 0; c < 3; c++) {
    const seen = data[4 * i + 3];
    out[3 * i + c] = Math.floor((data[4 * i + 2 - c] * seen + 127) / 255) + 255 - seen;
  }
  return { data: out, width, height };
}

/** Bilinear, centres of pixels half a pixel in, as OpenCV's. */
function resized(image, width, height) {
  const { data, width: w, height: h } = image, out = new Uint8Array(3 * width * height);
  if (w === width && h === height) return image;
  const axis = (n, from) => Array.from({ length: n }, (_, i) => {
    const at = Math.min(Math.max((i + 0.5) * from / n - 0.5, 0), from - 1), low = Math.floor(at);
    return [low, Math.min(low + 1, from - 1), at - low];
  });
  const xs = axis(width, w);
  axis(height, h).forEach(([y0, y1, fy], y) => xs.forEach(([x0, x1, fx], x) => {
    for (let c = 0; c < 3; c++) {
      const top = data[3 * (y0 * w + x0) + c] * (1 - fx) + data[3 * (y0 * w + x1) + c] * fx;
      const low = data[3 * (y1 * w + x0) + c] * (1 - fx) + data[3 * (y1 * w + x1) + c] * fx;
      out[3 * (y * width + x) + c] = Math.round(top * (1 - fy) + low * fy);
    }
  }));
  return { data: out, width, height };
}

/** (x / 255 - mean) / std as [3, height, total], zeros to the right. */
function planes({ data, width, height }, mean, std, total = width) {
  const out = new Float32Array(3 * height * total);
  for (let c = 0; c < 3; c++)
    for (let y = 0; y < height; y++)
      for (let x = 0; x < width; x++)
        out[(c * height + y) * total + x] = (data[3 * (y * width + x) + c] / 255 - mean[c]) / std[c];
  return out;
}

/** Corners ordered: of the two leftmost the upper one, then around. */
function clockwise(box) {
  const by = [...box].sort((a, b) => a[0] - b[0]);
  const [l, r] = [by.slice(0, 2), by.slice(2)].map((two) => two.sort((a, b) => a[1] - b[1]));
  return [l[0], r[0], r[1], l[1]];
}

function hull(points) {
  const cross = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const chain = (each) => {
    const out = [];
    for (const p of each) {
      while (out.length > 1 && cross(out.at(-2), out.at(-1), p) <= 0) out.pop();
      out.push(p);
    }
    return out.slice(0, -1);
  };
  return sorted.length < 3 ? sorted : [...chain(sorted), ...chain(sorted.reverse())];
}

/** The rectangle of the least area around points: centre, unit vector of its width, width and height. */
function rectangle(points) {
  const outer = hull(points);
  let best = null;
  outer.forEach((p, i) => {
    const q = outer[(i + 1) % outer.length], n = distance(p, q) || 1;
    const u = [(q[0] - p[0]) / n, (q[1] - p[1]) / n];
    const along = outer.map(([x, y]) => x * u[0] + y * u[1]), across = outer.map(([x, y]) => y * u[0] - x * u[1]);
    const [a, b, c, d] = [Math.min(...along), Math.max(...along), Math.min(...across), Math.max(...across)];
    const area = (b - a) * (d - c), s = (a + b) / 2, t = (c + d) / 2;
    if (best === null || area < best.area)
      best = { area, u, width: b - a, height: d - c, centre: [s * u[0] - t * u[1], s * u[1] + t * u[0]] };
  });
  return best;
}

function corners({ centre: [x, y], u: [a, b], width, height }) {
  const [w, h] = [width / 2, height / 2];
  return clockwise([[-w, -h], [w, -h], [w, h], [-w, h]].map(([s, t]) => [x + s * a - t * b, y + s * b + t * a]));
}

/** The outline of a rectangle moved outwards by so much, with round corners. Like the library that Python has for it, from whole
 *  numbers to whole numbers: half a pixel of the map may be several of the page. */
function widened(box, more) {
  const points = box.map((p) => p.map(Math.trunc)), out = [];
  // a chord leaves its arc by a quarter at most, and none is shorter than two
  const step = Math.max(2 * Math.acos(1 - Math.min(0.25, more / 4) / more), 2 / more);
  const normals = points.map((p, i) => {
    const q = points[(i + 1) % points.length], n = distance(p, q) || 1;
    return [(q[1] - p[1]) / n, (p[0] - q[0]) / n];
  });
  points.forEach(([x, y], i) => {
    const [a, b] = normals.at(i - 1), to = normals[i];
    const turn = Math.atan2(a * to[1] - to[0] * b, a * to[0] + b * to[1]);
    const add = (s, t) => out.push([x + s * more, y + t * more].map((v) => Math.sign(v) * Math.round(Math.abs(v))));
    for (let k = 0; k < Math.max(Math.round(Math.abs(turn) / step), 1); k++) {
      const [c, s] = [Math.cos(k * step), Math.sign(turn) * Math.sin(k * step)];
      add(a * c - b * s, a * s + b * c);
    }
    add(...to);
  });
  return out;
}

/** Outer points of each connected part of the pixels above a threshold. */
function parts(map, width, height, threshold, dilate) {
  const on = Uint8Array.from(map, (v) => (v > threshold ? 1 : 0)), marked = dilate ? on.slice() : on;
  if (dilate)
    for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
      const i = y * width + x;
      if (on[i] || (x && on[i - 1]) || (y && on[i - width]) || (x && y && on[i - width - 1])) marked[i] = 1;
    }
  const found = [], stack = [];
  for (let start = 0; start < marked.length; start++) {
    if (marked[start] !== 1) continue;
    const points = [];
    stack.push(start);
    marked[start] = 2;
    while (stack.length) {
      const i = stack.pop(), x = i % width, y = (i - x) / width;
      let inside = 0;
      for (let dy = -1; dy < 2; dy++) for (let dx = -1; dx < 2; dx++) {
        if (x + dx < 0 || x + dx >= width || y + dy < 0 || y + dy >= height) continue;
        const j = i + dy * width + dx;
        inside += marked[j] > 0;
        if (marked[j] === 1) { marked[j] = 2; stack.push(j); }
      }
      if (inside < 9) points.push([x, y]);
    }
    found.push(points);
  }
  return found.reverse();
}

/** The mean over the pixels in a convex polygon. */
function meanInside(map, width, height, polygon) {
  const [xs, ys] = [0, 1].map((k) => polygon.map((p) => p[k]));
  const clip = (v, n) => Math.min(Math.max(v, 0), n - 1);
  const [left, right] = [clip(Math.floor(Math.min(...xs)), width), clip(Math.ceil(Math.max(...xs)), width)];
  const [top, low] = [clip(Math.floor(Math.min(...ys)), height), clip(Math.ceil(Math.max(...ys)), height)];
  const whole = polygon.map(([x, y]) => [Math.trunc(x - left), Math.trunc(y - top)]);
  let sum = 0, n = 0;
  for (let y = 0; y <= low - top; y++) for (let x = 0; x <= right - left; x++) {
    let sign = 0;
    const inside = whole.every(([ax, ay], i) => {
      const [bx, by] = whole[(i + 1) % whole.length], side = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
      if (Math.abs(side) <= Math.max(Math.abs(bx - ax), Math.abs(by - ay)) / 2) return true; // its edges belong to it
      if (!sign) sign = Math.sign(side);
      return Math.sign(side) === sign;
    });
    if (inside) { sum += map[(top + y) * width + left + x]; n++; }
  }
  return n ? sum / n : 0;
}

/** Boxes of lines in reading order, in pixels of a page. */
export function boxes(map, width, height, page, o) {
  const found = [];
  for (const points of parts(map, width, height, o.det_db_thresh, o.use_dilation).slice(0, o.det_max_candidates)) {
    const tight = rectangle(points);
    if (!tight || Math.min(tight.width, tight.height) < LEAST) continue;
    if (meanInside(map, width, height, corners(tight)) < o.det_db_box_thresh) continue;
    const more = tight.area * o.det_db_unclip_ratio / (2 * (tight.width + tight.height));
    const wide = rectangle(widened(corners(tight), more));
    if (Math.min(wide.width, wide.height) < LEAST + 2) continue;
    const placed = corners(wide).map(([x, y]) => [
      Math.min(Math.max(half(x / width * page.width), 0), page.width - 1),
      Math.min(Math.max(half(y / height * page.height), 0), page.height - 1),
    ]);
    const box = clockwise(placed);
    if (Math.trunc(distance(box[0], box[1])) > LEAST && Math.trunc(distance(box[0], box[3])) > LEAST) found.push(box);
  }
  found.sort((a, b) => a[0][1] - b[0][1] || a[0][0] - b[0][0]);
  for (let i = 1; i < found.length; i++)
    for (let at = i; at && Math.abs(found[at][0][1] - found[at - 1][0][1]) < SAME_LINE && found[at][0][0] < found[at - 1][0][0]; at--)
      [found[at - 1], found[at]] = [found[at], found[at - 1]];
  return found;
}

/** A line as an upright picture: the perspective of the box undone, one much higher than wide laid down. */
function cutOut(image, box) {
  const [p, q, r, s] = box, { data, width: w, height: h } = image;
  const width = Math.max(Math.trunc(Math.max(distance(p, q), distance(r, s))), 1);
  const height = Math.max(Math.trunc(Math.max(distance(q, r), distance(s, p))), 1);
  const [sx, sy] = [0, 1].map((k) => p[k] - q[k] + r[k] - s[k]);
  const [ax, ay, bx, by] = [q[0] - r[0], q[1] - r[1], s[0] - r[0], s[1] - r[1]], det = ax * by - bx * ay;
  const [g, e] = [(sx * by - bx * sy) / det, (ax * sy - sx * ay) / det];
  const [a, b, c, d] = [q[0] - p[0] + g * q[0], s[0] - p[0] + e * s[0], q[1] - p[1] + g * q[1], s[1] - p[1] + e * s[1]];
  const out = new Uint8Array(3 * width * height), cubic = (t) => {
    const f = (x) => (x <= 1 ? (1.25 * x - 2.25) * x * x + 1 : ((-0.75 * x + 3.75) * x - 6) * x + 3);
    return [f(1 + t), f(t), f(1 - t), f(2 - t)];
  };
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    const [u, v] = [x / width, y / height], z = g * u + e * v + 1;
    const [fx, fy] = [(a * u + b * v + p[0]) / z, (c * u + d * v + p[1]) / z], [x0, y0] = [Math.floor(fx), Math.floor(fy)];
    const [wx, wy] = [cubic(fx - x0), cubic(fy - y0)], sum = [0, 0, 0];
    for (let j = 0; j < 4; j++) for (let i = 0; i < 4; i++) {
      const at = 3 * (Math.min(Math.max(y0 + j - 1, 0), h - 1) * w + Math.min(Math.max(x0 + i - 1, 0), w - 1));
      for (let k = 0; k < 3; k++) sum[k] += data[at + k] * wx[i] * wy[j];
    }
    for (let k = 0; k < 3; k++) out[3 * (y * width + x) + k] = Math.min(Math.max(Math.round(sum[k]), 0), 255);
  }
  return height / width >= 1.5 ? turned({ data: out, width, height }) : { data: out, width, height };
}

/** A quarter turn to the left. */
function turned({ data, width, height }) {
  const out = new Uint8Array(data.length);
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++)
    out.set(data.subarray(3 * (y * width + x), 3 * (y * width + x) + 3), 3 * ((width - 1 - x) * height + y));
  return { data: out, width: height, height: width };
}

/** new Reader({backend}): as Runner's, WebGPU where there is one unless "wasm" or "webgpu" is named. */
export class Reader {
  constructor({ backend } = {}) { this.backend = backend; }

  async init() {
    const { options, characters, networks } = await (await fetch("settings.json")).json();
    [this.options, this.characters, this.networks] = [options, characters, {}];
    for (const kind of networks) this.networks[kind] = await new Network(`${kind}.onnx`, { backend: this.backend }).init();
    this.backend = this.networks.det.backend;
    return this;
  }

  /** Lines of text with their boxes and confidences, from ImageData. */
  async read(picture) {
    const o = this.options, original = blueGreenRed(picture);
    let ratio = 1;
    const [most, least] = [Math.max(original.width, original.height), Math.min(original.width, original.height)];
    if (o.max_side_len && most > o.max_side_len) ratio = o.max_side_len / most;
    else if (o.min_side_len && least < o.min_side_len) ratio = o.min_side_len / least;
    const page = ratio === 1 ? original : resized(original, stepped(original.width, ratio), stepped(original.height, ratio));
    const scale = [original.width / page.width, original.height / page.height];
    const lines = [];
    for (const box of await this.detect(page)) {
      const { text, confidence } = await this.recognize(await this.upright(cutOut(page, box)));
      if (confidence >= o.drop_score) lines.push({ box: box.map(([x, y]) => [x * scale[0], y * scale[1]]), text, confidence });
    }
    return lines;
  }

  async detect(page) {
    const o = this.options, side = o.det_limit_type === "max" ? Math.max(page.width, page.height) : Math.min(page.width, page.height);
    const outside = o.det_limit_type === "max" ? side > o.det_limit_side_len : side < o.det_limit_side_len;
    const ratio = outside ? o.det_limit_side_len / side : 1;
    const [width, height] = [stepped(page.width, ratio), stepped(page.height, ratio)];
    const given = planes(resized(page, width, height), o.det_mean, o.det_std);
    const [{ data, dims }] = await this.networks.det.run(given, [1, 3, height, width]);
    return boxes(data, dims[3], dims[2], page, o);
  }

  async upright(line) {
    const [, height, width] = this.options.cls_image_shape;
    if (!this.networks.cls || !this.options.use_angle_cls) return line;
    const [{ data }] = await this.networks.cls.run(padded(line, height, width), [1, 3, height, width]);
    if (!(data[1] > data[0] && data[1] > this.options.cls_thresh)) return line;
    return turned(turned(line));
  }

  async recognize(line) {
    const [, height, least] = this.options.rec_image_shape, natural = height * line.width / line.height;
    const near = least * GROWTH ** half(Math.log(Math.max(Math.trunc(natural), least) / least) / Math.log(GROWTH));
    const width = Math.min(half(near / WIDTHS) * WIDTHS, this.options.rec_max_width ?? Infinity);
    const [{ data, dims }] = await this.networks.rec.run(padded(line, height, width, natural > least), [1, 3, height, width]);
    return decoded(data, dims[1], dims[2], this.characters);
  }
}

function padded(line, height, width, fill = false) {
  const own = fill ? width : Math.max(Math.min(Math.ceil(height * (line.width / line.height)), width), 1);
  return planes(resized(line, own, height), [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], width);
}

/** The best class of each step, without repetitions and blanks. */
export function decoded(data, steps, classes, characters) {
  let text = "", sum = 0, n = 0, last = 0;
  for (let t = 0; t < steps; t++) {
    let best = 0;
    for (let c = 1; c < classes; c++) if (data[t * classes + c] > data[t * classes + best]) best = c;
    if (best && best !== last) { text += characters[best]; sum += data[t * classes + best]; n++; }
    last = best;
  }
  return { text, confidence: n ? sum / n : 0 };
}
