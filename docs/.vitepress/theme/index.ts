/** The default theme, with diagrams. */

import { useData } from "vitepress";
import "./style.css";
import DefaultTheme from "vitepress/theme";
import { defineComponent, h, onMounted, ref, watch } from "vue";

const Mermaid = defineComponent({
  props: { code: { type: String, required: true } },
  setup({ code }) {
    const { isDark } = useData();
    const svg = ref("");
    const draw = async () => {
      const { default: mermaid } = await import("mermaid");
      const theme = isDark.value ? "dark" : "neutral";
      mermaid.initialize({ startOnLoad: false, theme, htmlLabels: false, flowchart: { wrappingWidth: 480 } });
      svg.value = (await mermaid.render(`diagram-${crypto.randomUUID()}`, decodeURIComponent(code))).svg;
    };
    onMounted(draw);
    watch(isDark, draw);
    return () => h("div", { class: "mermaid", innerHTML: svg.value });
  },
});

export default {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => app.component("Mermaid", Mermaid),
} satisfies typeof DefaultTheme;
