/**
 * A client of the platform: who am I, may I, how, and what I did. Begin with {@link platform.client.PlatformClient}; the
 * messages are in package {@code platform.sdk.v1}.
 */
package platform.client;
