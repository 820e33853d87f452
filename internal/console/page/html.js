// The parts of the libraries that the modules of the page use.
import { h, htm } from "./vendor/libraries.js";

export const html = htm.bind(h);
export { Fragment, render, useEffect, useLayoutEffect, useMemo, useRef, useState, batch, computed, effect, signal } from "./vendor/libraries.js";
