import { useTitle } from "../hooks.ts";

/** Another tenant's log looks like one that does not exist. */
export function NoLog() {
  useTitle("No such log");
  return (
    <>
      <h1>There is no such log</h1>
      <p>Or these credentials may not see it.</p>
      <p>
        <a href="/console">To the first page</a>
      </p>
    </>
  );
}
