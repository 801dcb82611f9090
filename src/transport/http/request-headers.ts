import { headerValues } from "./edge.ts";

const whole = Headers.prototype;
/** field-name (RFC 9110 §5.1) */
const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * The headers of a request, filled once somebody looks at them as a whole: almost no call's are, and to fill them
 * costs more than to route the call. Whoever looks sees a `Headers` to which every header was appended in order.
 */
export class RequestHeaders extends Headers {
  /** As Node gives them: name, value, name, value, …; undefined once filled. */
  #raw: readonly string[] | undefined;

  constructor(rawHeaders: readonly string[]) {
    super();
    this.#raw = rawHeaders;
  }

  #fill(): void {
    const raw = this.#raw ?? [];
    this.#raw = undefined;
    for (let i = 0; i < raw.length; i += 2) {
      const name = raw[i] as string;
      // HTTP/2 pseudo-headers are no header names.
      if (!name.startsWith(":")) this.append(name, raw[i + 1] as string);
    }
  }

  /** One header is looked for without the others. */
  #get(name: string): string | null {
    if (this.#raw === undefined || !fieldName.test(name)) return whole.get.call(this, name);
    const values = headerValues(this.#raw, name.toLowerCase());
    if (values.length === 0) return null;
    const only = new Headers();
    for (const value of values) only.append(name, value);
    return only.get(name);
  }

  // Whatever Headers can do, in later versions too, it does filled.
  static {
    for (const name of Reflect.ownKeys(whole)) {
      const property = Object.getOwnPropertyDescriptor(whole, name);
      const method: unknown = property?.value;
      if (typeof method !== "function" || name === "constructor") continue;
      const value = function (this: RequestHeaders, ...given: unknown[]): unknown {
        if (this.#raw !== undefined) this.#fill();
        return Reflect.apply(method, this, given);
      };
      Object.defineProperty(RequestHeaders.prototype, name, { ...property, value });
    }
    const value = function (this: RequestHeaders, name: string) {
      return this.#get(name);
    };
    Object.defineProperty(RequestHeaders.prototype, "get", { value });
  }
}
