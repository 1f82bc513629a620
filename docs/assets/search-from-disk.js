// Browsers start no worker for a page that was opened from the disk, so the search would not work there. This gives its
// script a frame of its own instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      const start = () => {
        const inside = (this.inside = frame.contentWindow);
        inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
        inside.importScripts = (...addresses) =>
          addresses.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
        this.load(address).then(() => {
          this.isReady = true;
          this.waiting.forEach((data) => this.postMessage(data));
        });
      };
      document.body.appendChild(frame);
      start();
    }

    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script");
        script.src = address;
        script.onload = resolve;
        script.onerror = reject;
        this.inside.document.body.appendChild(script);
      });
    }

    postMessage(data) {
      if (this.isReady) this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }));
      else this.waiting.push(data);
    }
  };
}
