/** The published typings cover only the package's index; its `Provider` comes from this module. */
declare module "oidc-provider/lib/provider.js" {
  export { Provider } from "oidc-provider";
}
