import { useEffect, useState } from "preact/hooks";

export type Loaded<Value> =
  | { readonly state: "loading" }
  | { readonly state: "failed"; readonly error: Error }
  | { readonly state: "done"; readonly value: Value };

/** Runs the work when one of the inputs changes. The result of an earlier run is dropped. */
export function useLoaded<Value>(
  work: (signal: AbortSignal) => Promise<Value>,
  inputs: readonly unknown[],
): Loaded<Value> {
  const [loaded, setLoaded] = useState<Loaded<Value>>({ state: "loading" });
  useEffect(() => {
    const controller = new AbortController();
    const set = (next: Loaded<Value>) => {
      if (!controller.signal.aborted) setLoaded(next);
    };
    set({ state: "loading" });
    work(controller.signal).then(
      (value) => set({ state: "done", value }),
      (error: unknown) => set({ state: "failed", error: error instanceof Error ? error : new Error(String(error)) }),
    );
    return () => controller.abort();
  }, [...inputs]);
  return loaded;
}

/**
 * The members behind the `#` of the address, and a function that replaces them. What is there never reaches a server, so
 * it may hold what was searched for.
 */
export function useFragment(): [URLSearchParams, (members: Readonly<Record<string, string>>) => void] {
  const [text, setText] = useState(location.hash.slice(1));
  useEffect(() => {
    const read = () => setText(location.hash.slice(1));
    addEventListener("hashchange", read);
    addEventListener("popstate", read);
    return () => {
      removeEventListener("hashchange", read);
      removeEventListener("popstate", read);
    };
  }, []);
  const write = (members: Readonly<Record<string, string>>) => {
    const next = fragmentOf(members);
    if (next === location.hash.slice(1)) return;
    history.pushState(null, "", `${location.pathname}#${next}`);
    setText(next);
  };
  return [new URLSearchParams(text), write];
}

/** Members without a value are left out. */
export function fragmentOf(members: Readonly<Record<string, string>>): string {
  return new URLSearchParams(Object.entries(members).filter(([, value]) => value !== "")).toString();
}

/** Sets the title of the window. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · console`;
  }, [title]);
}
