import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { LocationProvider, lazy, Route, Router, useLocation } from "preact-iso";
import { type Log, resume, type SignInState, signIn, signInState, signOut } from "./api.ts";
import { useTitle } from "./hooks.ts";
import { ArtifactPage } from "./pages/artifact.tsx";
import { LedgerPage } from "./pages/ledger.tsx";
import { OverviewPage } from "./pages/overview.tsx";
import { PoliciesPage } from "./pages/policies.tsx";
import { PrincipalPage } from "./pages/principal.tsx";
import { RecordPage } from "./pages/record.tsx";
import { ReportsPage } from "./pages/reports.tsx";
import { SystemPage } from "./pages/system.tsx";
import { VerifyPage } from "./pages/verify.tsx";
import { Failure, paths, type Session, SessionContext, useSession } from "./parts.tsx";

const PlaygroundPage = lazy(() => import("./pages/playground.tsx"));

function Console() {
  const [logs, setLogs] = useState<readonly Log[]>();
  const [notice, setNotice] = useState<string>();
  const { path, route } = useLocation();
  // Only the first path of the log is known here; a page below it has its own link.
  const [, ofPath] = /^\/console\/logs\/([^/]+)/.exec(path) ?? [];
  const [lastLog, setLastLog] = useState<string>();
  useEffect(() => setLastLog((last) => ofPath ?? last), [ofPath]);
  const current = ofPath ?? lastLog ?? logs?.[0]?.name;
  const [person, setPerson] = useState<SignInState>();
  useEffect(() => {
    const expired = () => leave("The session ended: sign in again.");
    const start = async () => {
      const state = await signInState().catch(() => ({ sign_in: false }) as SignInState);
      if (state.session !== undefined) setLogs(await resume(expired).catch(() => undefined));
      setNotice(refusalIn(location.search));
      setPerson(state);
    };
    void start();
  }, []);
  const leave = (why?: string) => {
    setLogs(undefined);
    setNotice(why);
    signOut().catch(() => setNotice("The session did not end. Reload the page, and sign out again."));
  };
  const session: Session | undefined = logs && { logs, signOut: () => leave("You are signed out.") };
  const enter = async (token: string) => {
    setLogs(await signIn(token, () => leave("The credentials expired or were revoked: sign in again.")));
    setNotice(undefined);
  };
  const isOpen = path === "/console/verify";
  return (
    <SessionContext.Provider value={session}>
      <a class="skip" href="#content">
        Skip to the content
      </a>
      <header>
        <strong>Console</strong>
        <nav aria-label="Pages">
          {session !== undefined && current !== undefined && (
            <>
              <PageLink href={paths.overview(current)} text="Overview" />
              <PageLink href={paths.ledger(current)} text="Ledger" />
              <PageLink href={paths.policies(current)} text="Policies" />
              <PageLink href={paths.reports(current)} text="Reports" />
            </>
          )}
          <PageLink href="/console/verify" text="Verify" />
          {session !== undefined && <PageLink href="/console/system" text="System" />}
        </nav>
        {session !== undefined && current !== undefined && (
          <label class="log">
            <span>Tenant</span>
            <select value={current} onChange={(event) => route(paths.overview(event.currentTarget.value))}>
              {session.logs.every(({ name }) => name !== current) && <option value={current}>not yours</option>}
              {session.logs.map(({ name, tenant_id }) => (
                <option key={name} value={name}>
                  {tenant_id}
                </option>
              ))}
            </select>
          </label>
        )}
        {session !== undefined && (
          <button type="button" onClick={session.signOut}>
            Sign out
          </button>
        )}
      </header>
      <main id="content" tabIndex={-1}>
        {session === undefined && !isOpen ? (
          person !== undefined && <SignIn notice={notice} enter={enter} byIssuer={person.sign_in} />
        ) : (
          <Router>
            <Route path="/console/verify" component={VerifyPage} />
            <Route path="/console/system" component={SystemPage} />
            <Route path="/console/logs/:log" component={OverviewPage} />
            <Route path="/console/logs/:log/ledger" component={LedgerPage} />
            <Route path="/console/logs/:log/artifact" component={ArtifactPage} />
            <Route path="/console/logs/:log/principal" component={PrincipalPage} />
            <Route path="/console/logs/:log/reports" component={ReportsPage} />
            <Route path="/console/logs/:log/records/:id" component={RecordPage} />
            <Route path="/console/logs/:log/policies" component={PoliciesPage} />
            <Route path="/console/logs/:log/playground" component={PlaygroundPage} />
            <Route path="/console" component={FirstPage} />
            <Route default component={NoPage} />
          </Router>
        )}
      </main>
    </SessionContext.Provider>
  );
}

function PageLink({ href, text }: { readonly href: string; readonly text: string }) {
  const isCurrent = useLocation().path === href;
  return (
    <a href={href} {...(isCurrent && { "aria-current": "page" as const })}>
      {text}
    </a>
  );
}

/** Why the issuer's answer did not lead to a session. */
const refusals: Readonly<Record<string, string>> = {
  no_role: "You are signed in at the issuer, but have no role here. Ask for operator, or auditor of a tenant.",
  refused: "The sign-in was not completed in this browser, or took too long. Try again.",
};

function refusalIn(query: string): string | undefined {
  const refused = new URLSearchParams(query).get("refused");
  return refused === null ? undefined : (refusals[refused] ?? refusals.refused);
}

function SignIn(props: {
  readonly notice: string | undefined;
  readonly byIssuer: boolean;
  enter(token: string): Promise<void>;
}) {
  const { notice, byIssuer, enter } = props;
  useTitle("Sign in");
  const { path } = useLocation();
  const start = () => location.assign(`/console/sign-in?to=${encodeURIComponent(path)}`);
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const token = new FormData(event.currentTarget as HTMLFormElement).get("token");
    setBusy(true);
    await enter(String(token).trim()).catch(setError);
    setBusy(false);
  };
  return (
    <form class="sign-in" onSubmit={submit}>
      <h1>Sign in</h1>
      {notice !== undefined && <p class="note">{notice}</p>}
      {byIssuer && (
        <button type="button" class="person" onClick={start}>
          Sign in as yourself
        </button>
      )}
      {/* One-time codes are kept by no password manager, and neither is this. */}
      <label>
        <span>Operator token, or an access token with the scope ledger.search</span>
        <input name="token" type="password" autocomplete="off" required spellcheck={false} />
      </label>
      <button type="submit" class={byIssuer ? "second" : ""} disabled={isBusy}>
        {byIssuer ? "Sign in with the token" : "Sign in"}
      </button>
      {error !== undefined && <Failure error={error} />}
      <p class="quiet">
        The token stays in the memory of this page: a reload forgets it. Make one with <code>operators add</code>.{" "}
        <a href="/console/verify">Verify</a> needs none.
      </p>
    </form>
  );
}

/** The first log's overview, or what to do if there is none. */
function FirstPage() {
  useTitle("Console");
  const { logs } = useSession();
  const { route } = useLocation();
  const first = logs[0]?.name;
  useEffect(() => {
    if (first !== undefined) route(paths.overview(first), true);
  }, [first]);
  return <p class="note">{first === undefined ? "There is no log yet: a tenant's first call makes it." : ""}</p>;
}

function NoPage() {
  useTitle("No such page");
  return (
    <>
      <h1>There is no such page</h1>
      <p>
        <a href="/console">To the first page</a>
      </p>
    </>
  );
}

const root = document.getElementById("console");
if (root !== null)
  render(
    <LocationProvider scope="/console">
      <Console />
    </LocationProvider>,
    root,
  );
