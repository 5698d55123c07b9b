// Shows the figures of the mark under the pointer, under a finger, or with the keyboard.
// The page says everything without it: in the marks' titles, and in the tables.
"use strict";
(() => {
  const tip = document.getElementById("tip");
  const words = new WeakMap();
  let shown = null;

  // The browser would show a title of its own beside ours; as a label it is still read out.
  const take = (mark) => {
    const title = mark.querySelector(":scope > title");
    if (!title) return;
    const text = title.textContent;
    words.set(mark, text);
    mark.setAttribute("aria-label", text.replaceAll("\n", ", "));
    title.remove();
  };

  const hide = () => {
    if (shown) shown.classList.remove("shown");
    shown = null;
    tip.hidden = true;
  };

  const show = (mark, near) => {
    if (!words.has(mark)) return;
    if (shown !== mark) {
      hide();
      shown = mark;
      mark.classList.add("shown");
      tip.replaceChildren(...words.get(mark).split("\n").map((line) => {
        const row = document.createElement("div");
        row.textContent = line;
        return row;
      }));
      tip.hidden = false;
    }
    place(near || middle(mark));
  };

  // Above the mark, or below where there is no room; never off the screen.
  const place = ({ x, top, bottom }) => {
    const { width, height } = tip.getBoundingClientRect();
    const room = document.documentElement.clientWidth;
    const left = Math.min(Math.max(x - width / 2, 6), Math.max(room - width - 6, 6));
    const above = top - height - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 4 ? above : bottom + 8}px`;
  };

  const box = (mark) => (mark.querySelector(".bar") || mark.querySelector("path") || mark)
    .getBoundingClientRect();
  const middle = (mark) => {
    const { left, width, top, bottom } = box(mark);
    return { x: left + width / 2, top, bottom };
  };

  // Bars and ranges: the whole row answers.
  for (const track of document.querySelectorAll(".track")) {
    take(track);
    const row = track.closest(".row");
    const at = (event) => {
      const { top, bottom } = track.getBoundingClientRect();
      show(track, { x: event.clientX, top, bottom });
    };
    row.addEventListener("pointermove", at);
    row.addEventListener("pointerdown", at);
    row.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    track.addEventListener("focus", () => track.matches(":focus-visible") && show(track));
    track.addEventListener("blur", hide);
  }

  // Points: the nearest one answers. One of a chart can be reached by the tab key, the
  // others from it by the arrows.
  for (const plot of document.querySelectorAll("[data-marks]")) {
    const marks = [...plot.querySelectorAll("circle, .mark")];
    marks.forEach((mark, index) => {
      take(mark);
      mark.setAttribute("role", "img");
      mark.setAttribute("tabindex", index === 0 ? "0" : "-1");
      mark.addEventListener("focus", () => mark.matches(":focus-visible") && show(mark));
      mark.addEventListener("blur", hide);
    });
    const nearest = (event) => {
      let best = null;
      let least = Infinity;
      for (const mark of marks) {
        const { x, top, bottom } = middle(mark);
        const far = Math.hypot(x - event.clientX, ((top + bottom) / 2 - event.clientY) * 0.6);
        if (far < least) [best, least] = [mark, far];
      }
      if (best) show(best);
    };
    plot.addEventListener("pointermove", nearest);
    plot.addEventListener("pointerdown", nearest);
    plot.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    plot.addEventListener("keydown", (event) => {
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
      const from = marks.indexOf(document.activeElement);
      const to = event.key === "Home" ? 0 : event.key === "End" ? marks.length - 1
        : from + steps[event.key];
      if (from < 0 || !marks[to]) return;
      event.preventDefault();
      marks[from].setAttribute("tabindex", "-1");
      marks[to].setAttribute("tabindex", "0");
      marks[to].focus();
    });
  }

  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  // The page also scrolls to a mark that gets the focus: then the tip goes with it.
  document.addEventListener("scroll", () => {
    if (shown && shown === document.activeElement) place(middle(shown));
    else hide();
  }, { passive: true });
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".row, [data-marks]")) hide();
  });

  // On paper nothing can be unfolded.
  const folded = document.querySelectorAll("details");
  let closed = [];
  window.addEventListener("beforeprint", () => {
    hide();
    closed = [...folded].filter((one) => !one.open);
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => closed.forEach((one) => { one.open = false; }));
})();
