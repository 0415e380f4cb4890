// What lies beside this file: the token is a part of its address.
const { default: front } = await import(new URL("front.js", import.meta.url));
front.page({ base: import.meta.url, el: document.body });
