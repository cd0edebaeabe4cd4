import './app/components.css';
import './app/desk.css';
import { QueryClient } from '@tanstack/react-query';
import { createRoot } from 'react-dom/client';
import { DeskApp } from './app/desk-app.tsx';
import { makeRouter } from './app/routes.tsx';
import { startWords } from './words/start-words.ts';

const root = document.getElementById('root');
if (!root) throw new Error('the page has no #root element');
// A request is sent whatever the browser thinks of the network: an answer that waits unseen for a connection would look sent.
const networkMode = 'always';
const client = new QueryClient({
  defaultOptions: { queries: { retry: 1, networkMode }, mutations: { networkMode } },
});
const words = await startWords();
createRoot(root).render(<DeskApp words={words} client={client} router={makeRouter()} />);
