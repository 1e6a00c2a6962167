// What the pages share: a picture by drop, choice, paste, camera or ?image=, shown on a canvas and handed on.
export function pictures(onPicture) {
  const find = (id) => document.getElementById(id);
  const area = find("drop"), video = find("video"), said = find("said");
  const take = async (source) => {
    try {
      said.textContent = "…";
      const begin = performance.now();
      said.textContent = (await onPicture(source)) ?? `${Math.round(performance.now() - begin)} ms`;
      document.body.dataset.done = "1";
    } catch (error) {
      said.textContent = String(error);
      document.body.dataset.done = "failed";
    }
  };
  const open = async (url) => {
    let image;
    try {
      image = await picture(url);
    } catch {
      said.textContent = "this is no picture that the browser knows";
      document.body.dataset.done = "failed";
      return;
    }
    await take(image);
  };
  const file = (each) => each && open(URL.createObjectURL(each));
  area.addEventListener("dragover", (event) => event.preventDefault());
  area.addEventListener("drop", (event) => { event.preventDefault(); file(event.dataTransfer.files[0]); });
  addEventListener("paste", (event) => file(event.clipboardData.files[0]));
  find("file").addEventListener("change", (event) => file(event.target.files[0]));
  find("camera").addEventListener("click", async () => {
    if (video.srcObject) return take(video);
    try {
      video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      video.hidden = false;
      await video.play();
      find("camera").textContent = "take the picture";
    } catch (error) {
      said.textContent = `there is no camera: ${error.message}`;
    }
  });
  const given = new URLSearchParams(location.search).get("image");
  if (given) open(given);
}

/** The picture at an address with the values that its file has: by default a browser changes them to its screen's colours, as
 *  the file's profile says, and networks were not trained with those. */
export async function picture(url) {
  try {
    return await createImageBitmap(await (await fetch(url)).blob(), { colorSpaceConversion: "none" });
  } catch {
    const image = new Image(); // a drawing of vectors has no size as a bitmap
    image.src = url;
    await image.decode();
    return image;
  }
}

/** The picture on the page's canvas, with its context; where it is transparent, the page is white. */
export function shown(media, width, height) {
  const canvas = document.getElementById("canvas");
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#fff";
  context.fillRect(0, 0, width, height);
  context.drawImage(media, 0, 0, width, height);
  return context;
}

/** The backend that ?backend= names. */
export const asked = () => new URLSearchParams(location.search).get("backend") ?? undefined;
