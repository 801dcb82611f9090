/** The published typings cover the package's index alone; this module is where its `Provider` comes from. */
declare module "oidc-provider/lib/provider.js" {
  export { Provider } from "oidc-provider";
}
