import { effect } from "@preact/signals";
import { render } from "preact";
import { App } from "./components/App";
import { access, start, watchHealth } from "./feeds/app";
import { watchWaiting } from "./feeds/waiting";
import { watchChat } from "./feeds/chat";
import { applyPreferences } from "./feeds/preferences";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/content.css";
import "./styles/views.css";

applyPreferences(document.documentElement);
const page = document.getElementById("page");
if (page !== null) render(<App />, page);
watchHealth();
watchChat();
effect(() => (access.value.state === "in" ? watchWaiting() : undefined));
void start();
