// Runner: a model in ONNX behind the interface of Paddle.js, on onnxruntime-web: by WebGPU where the browser has one, else by WebAssembly.
const BUILDS = { webgpu: "./ort.webgpu.min.mjs", wasm: "./ort.wasm.min.mjs" };
const loaded = {};

/** onnxruntime-web for a backend, fetched when it is first asked for: that of WebGPU is twice as large. */
function runtime(backend) {
  loaded[backend] ??= import(BUILDS[backend]).then((ort) => {
    ort.env.wasm.wasmPaths = new URL("./", import.meta.url).href;
    return ort;
  });
  return loaded[backend];
}

/** Backends in the order they are tried. Software in the place of a GPU is slower than WebAssembly, so it is not taken. */
async function backends(wanted) {
  if (wanted === undefined || wanted === null) return (found ??= available());
  if (!(wanted in BUILDS)) throw new Error(`backend: expected "webgpu" or "wasm", got ${JSON.stringify(wanted)}`);
  return [wanted];
}

let found; // by the first network: what a browser has does not change

async function available() {
  const adapter = await navigator.gpu?.requestAdapter().catch(() => null);
  const software = adapter?.info?.isFallbackAdapter ?? adapter?.isFallbackAdapter;
  return adapter && !software ? ["webgpu", "wasm"] : ["wasm"];
}

/** The session of a model: run(Float32Array, shape) gives a list of {name, data, dims}; `backend` tells by what, once it is made. */
export class Network {
  constructor(path, { backend } = {}) { [this.path, this.wanted] = [path, backend]; }

  async init() {
    const tried = await backends(this.wanted);
    const url = new URL(this.path, document.baseURI).href;
    for (const backend of tried) {
      try {
        this.ort = await runtime(backend);
        const options = { executionProviders: [backend], graphOptimizationLevel: "all" };
        this.session = await this.ort.InferenceSession.create(url, options);
        this.backend = backend;
        return this;
      } catch (error) {
        if (backend === tried.at(-1)) throw error;
        console.warn(`${this.path}: not by ${backend}: ${error.message}`);
      }
    }
  }

  async run(data, shape) {
    const made = await this.session.run({ [this.session.inputNames[0]]: new this.ort.Tensor("float32", data, shape) });
    return this.session.outputNames.map((name) => ({ name, data: made[name].data, dims: made[name].dims }));
  }
}

/** Pixels of a picture, a video, a canvas or ImageData, scaled into width x height with its sides kept, the rest filled. */
export function pixels(media, width, height, fill = "#fff") {
  if (media instanceof ImageData && media.width === width && media.height === height) return media;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = fill;
  context.fillRect(0, 0, width, height);
  const [w, h] = size(media);
  const ratio = Math.min(width / w, height / h);
  const [fw, fh] = [Math.round(w * ratio), Math.round(h * ratio)];
  context.drawImage(drawable(media), (width - fw) >> 1, (height - fh) >> 1, fw, fh);
  return context.getImageData(0, 0, width, height);
}

export function size(media) {
  return [media.naturalWidth || media.videoWidth || media.width, media.naturalHeight || media.videoHeight || media.height];
}

function drawable(media) {
  if (!(media instanceof ImageData)) return media;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [media.width, media.height];
  canvas.getContext("2d").putImageData(media, 0, 0);
  return canvas;
}

/** (x / 255 - mean) / std of the channels, as [channels, height, width]. */
export function planes(image, { mean = [0, 0, 0], std = [1, 1, 1], bgr = false, channels = 3 } = {}) {
  const n = image.width * image.height, out = new Float32Array(channels * n);
  for (let c = 0; c < channels; c++) {
    const from = bgr ? channels - 1 - c : c, m = mean[c] ?? mean[0], s = std[c] ?? std[0];
    for (let i = 0; i < n; i++) out[c * n + i] = (image.data[4 * i + from] / 255 - m) / s;
  }
  return out;
}

/** As in Paddle.js: new Runner({modelPath, feedShape: {fw, fh, fc}, fill, mean, std, bgr, needPreheat, backend}). */
export class Runner {
  constructor(options) {
    this.options = { modelPath: "model.onnx", fill: "#fff", mean: [0, 0, 0], std: [1, 1, 1], bgr: false, needPreheat: true, ...options };
    const { fw, fh, fc = 3 } = this.options.feedShape ?? {};
    if (!(fw > 0 && fh > 0)) throw new Error("Runner(feedShape): expected {fw, fh}, got " + JSON.stringify(options?.feedShape));
    this.shape = [1, fc, fh, fw];
  }

  async init() {
    this.network = await new Network(this.options.modelPath, this.options).init();
    return this.options.needPreheat ? this.preheat() : undefined;
  }

  preheat() { return this.predictWithFeed(new Float32Array(this.shape.reduce((a, b) => a * b))); }

  /** Results for a picture; a list of them where the model has several outputs. */
  predict(media, callback) {
    const [, fc, fh, fw] = this.shape;
    return this.predictWithFeed(planes(pixels(media, fw, fh, this.options.fill), { ...this.options, channels: fc }), callback);
  }

  /** Results for numbers that are ready for the model. */
  async predictWithFeed(data, callback, shape = this.shape) {
    const made = (await this.network.run(Float32Array.from(data), shape)).map((each) => each.data);
    const result = made.length === 1 ? made[0] : made;
    callback?.(result);
    return result;
  }
}
