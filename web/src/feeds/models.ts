// The windows of the models that the providers offer, asked for once.
import { signal } from "@preact/signals";
import { offeredModels } from "../api/projects";

/** In tokens, by the model's name. A model that is not listed has none. */
export const windows = signal<ReadonlyMap<string, number>>(new Map());
let isAsked = false;

/** Without the answer, only the share of the window is not shown. */
export function loadWindows() {
  if (isAsked) return;
  isAsked = true;
  offeredModels().then(
    ({ models }) => {
      windows.value = new Map(
        models.flatMap(({ model, window }) => (window == null ? [] : [[model, window] as const])),
      );
    },
    () => (isAsked = false),
  );
}
