/** The service as `main.js` starts it, with the limits that the variable `LIMITS` has as JSON. */
import { build, logConsole, watchDefects } from "../../src/app/app.ts";
import { readConfig } from "../../src/config/config.ts";
import { systemFiles } from "../../src/config/load.ts";

const read = readConfig(process.env, undefined, { uses: "serve", files: systemFiles });
if ("problems" in read) throw new Error(read.problems.join("\n"));
const app = await build(read.config, { limits: JSON.parse(process.env.LIMITS ?? "{}") });
logConsole(app.logger);
const stop = async () => process.exit((await app.close()) ? 0 : 1);
watchDefects(app.logger, () => void app.close().then(() => process.exit(1)));
process.once("SIGTERM", stop);
const { url, opsUrl } = await app.listen();
app.logger.info({ url, ops_url: opsUrl }, "listening");
